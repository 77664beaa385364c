"""The routes of the server: the explorer page, and the JSON API with its schema at /openapi.json."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from mtsa.errors import InputError
from mtsa.machine import environment_info
from mtsa.nn.deprecation import warn_deprecated
from mtsa.tasks.predictor import ModelInput

from .batch_queue import BatchQueue, QueueFullError
from .explorer_page import content_security_policy, explorer_page
from .limits import Limits
from .middleware import LOOPBACK, RequestMiddleware
from .schemas import (
    Error,
    ErrorAnalysis,
    ExplainRequest,
    Explanations,
    Health,
    InputFields,
    ModelInfo,
    Predictions,
    PredictRequest,
    describe_error,
)
from .served_model import ServedModel

_log = logging.getLogger("mtsa.serve")
_OLD_NAMES = "in a request are deprecated and will be removed in version 0.4; use"


T = TypeVar("T")


def build_app(models: dict[str, ServedModel], limits: Limits, hosts: tuple[str, ...] = LOOPBACK) -> RequestMiddleware:
    """Build the application that serves the given models; the first one is the default.

    Args:
        models: the models by name.
        limits: limits of requests.
        hosts: allowed host names; empty for any.
    """

    version = environment_info()["versions"]["mtsa"]

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.queue = BatchQueue(
            max_size=limits.max_queue_size, max_batch_size=limits.max_batch_size, max_batch_chars=limits.max_batch_chars
        )
        yield
        await app.state.queue.close()

    app = FastAPI(
        title="mtsa",
        version=version,
        description="Predictions and attention weights of models with multi-mask tensorized self-attention.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_body)
    app.add_exception_handler(Exception, _server_error)
    error_responses: dict[int | str, dict[str, Any]] = {
        status: {"model": Error, "description": description}
        for status, description in (
            (400, "malformed body, or invalid host name"),
            (405, "method not allowed"),
            (408, "timeout while reading the body"),
            (413, "body too large"),
            (415, "content type is not JSON"),
            (422, "invalid request"),
            (500, "internal server error"),
            (503, "queue is full"),
            (504, "prediction timed out"),
        )
    }

    get_responses: dict[int | str, dict[str, Any]] = {status: error_responses[status] for status in (400, 413, 500)}

    def resolve(name: str | None, fields: Sequence[InputFields]) -> tuple[ServedModel, list[ModelInput]]:
        model = next(iter(models.values())) if name is None else models.get(name)
        if model is None:
            raise HTTPException(422, f'unknown model "{(name or "")[:60]}"; available: {", ".join(models)}')
        inputs = [ModelInput(one.text, one.pair, one.predicate) for one in fields]
        for number, item in enumerate(inputs, 1):
            try:
                model.check(item)
            except InputError as error:
                raise HTTPException(422, str(error) if len(inputs) == 1 else f"input {number}: {error}") from None
        return model, inputs

    @app.api_route("/", methods=["GET", "HEAD"], response_class=HTMLResponse, include_in_schema=False)
    async def explorer() -> HTMLResponse:
        return HTMLResponse(explorer_page(), headers={"content-security-policy": content_security_policy()})

    @app.head("/health", include_in_schema=False)
    @app.get("/health", operation_id="health", responses=get_responses)
    async def health() -> Health:
        """Return the status of the server and the names of its models."""
        if not app.state.queue.alive:
            raise HTTPException(500, "the prediction worker has stopped; restart the server")
        return Health(status="ok", version=version, models=list(models))

    @app.get("/api/models", operation_id="models", responses=get_responses)
    async def list_models() -> list[ModelInfo]:
        """List the served models."""
        return [ModelInfo(**model.metadata()) for model in models.values()]

    @app.get("/api/errors", operation_id="errors", responses=get_responses)
    async def errors() -> ErrorAnalysis:
        """Return the mistakes of the first model, if the server was started with an error file."""
        return ErrorAnalysis(**next(iter(models.values())).error_analysis())

    @app.post("/api/predict", operation_id="predict", responses=error_responses, response_model=Predictions)
    async def predict(body: PredictRequest, request: Request) -> JSONResponse:
        """Return a prediction for each input, in order. Concurrent requests are batched."""
        model, inputs = resolve(body.model, body.inputs)
        result = await _until_disconnect(request, app.state.queue.predict(model, inputs, limits.timeout_seconds))
        if "questions" in await request.json():  # a client of version 0.2
            warn_deprecated(f'"questions" and "answers" {_OLD_NAMES} "inputs" and "predictions"')
            return JSONResponse({"model": model.name, "answers": result})
        return JSONResponse({"model": model.name, "predictions": result})

    @app.post("/api/explain", operation_id="explain", responses=error_responses, response_model=Explanations)
    async def explain(body: ExplainRequest, request: Request) -> Response:
        """Return the attention weights of every head and feature for a text."""
        model, (item,) = resolve(body.model, [body.input])
        result = await _until_disconnect(
            request, app.state.queue.run(lambda: model.explain(item, limits.max_explained_words), limits.timeout_seconds)
        )
        return Response(result, media_type="application/json")

    @app.post("/api/look", include_in_schema=False)
    async def look(body: ExplainRequest, request: Request) -> Response:
        """Name of `/api/explain` in version 0.2."""
        warn_deprecated(f"/api/look {_OLD_NAMES} /api/explain")
        result = json.loads(bytes((await explain(body, request)).body))
        for sentence in result["sentences"]:
            sentence["answer"] = sentence["prediction"]
        return JSONResponse(result)

    app.add_exception_handler(InputError, _invalid_input)
    app.add_exception_handler(QueueFullError, _queue_full)
    app.add_exception_handler(TimeoutError, _timed_out)
    return RequestMiddleware(app, limits=limits, hosts=hosts)


async def _until_disconnect(request: Request, response: Coroutine[Any, Any, T]) -> T:
    """Await a response; cancel the work if the client disconnects."""
    work = asyncio.ensure_future(response)
    gone = asyncio.ensure_future(request.receive())  # the body was read, so the next message is the disconnect
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise HTTPException(499, "the client has disconnected")
        return work.result()
    finally:
        work.cancel()
        gone.cancel()


def _error_response(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": " ".join(sentence.split())}, status, headers)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    messages = {
        400: "the body is not valid JSON",
        404: "not found; the explorer page is at /, the API schema at /openapi.json",
        405: f"{request.method} is not allowed for this path; see /openapi.json",
    }
    sentence = str(error.detail) if error.status_code == 422 else messages.get(error.status_code, str(error.detail))
    return _error_response(error.status_code, sentence, dict(error.headers or {}))


async def _invalid_body(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return _error_response(422, describe_error(error.errors()[0]))


async def _invalid_input(request: Request, error: Exception) -> JSONResponse:
    return _error_response(422, str(error))


async def _queue_full(request: Request, error: Exception) -> JSONResponse:
    return _error_response(503, "the queue is full; try again in a few seconds", {"retry-after": "5"})


async def _timed_out(request: Request, error: Exception) -> JSONResponse:
    return _error_response(504, "the prediction timed out; send fewer or shorter texts per request")


async def _server_error(request: Request, error: Exception) -> JSONResponse:
    _log.error("a request failed", exc_info=error)
    return _error_response(500, "internal server error; see the server log")
