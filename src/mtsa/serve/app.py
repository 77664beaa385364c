"""The routes of the server: the page, and the JSON API with its description at /openapi.json."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from mtsa.errors import InputError
from mtsa.machine import circumstances
from mtsa.tasks.predictor import Question

from .batch_queue import BatchQueue, QueueFullError
from .explorer_page import content_security_policy, explorer_page
from .limits import Limits
from .middleware import LOOPBACK, RequestMiddleware
from .schemas import Answers, Error, Health, LookRequest, Looks, ModelFacts, PredictRequest, QuestionFields, describe_error
from .served_model import ServedModel

_log = logging.getLogger("mtsa.serve")


T = TypeVar("T")


def build_app(models: dict[str, ServedModel], limits: Limits, hosts: tuple[str, ...] = LOOPBACK) -> RequestMiddleware:
    """The server of some models; the first one is the default.

    Args:
        models: by name.
        limits: limits of requests.
        hosts: allowed host names; empty for any.
    """

    version = circumstances()["versions"]["mtsa"]

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        app.state.queue = BatchQueue(waiting=limits.waiting, batch=limits.batch, characters=limits.characters)
        yield
        await app.state.queue.close()

    app = FastAPI(
        title="mtsa",
        version=version,
        description="Models with multi-mask tensorized self-attention: their answers, and what they looked at.",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_body)
    app.add_exception_handler(Exception, _server_error)
    refused: dict[int | str, dict[str, Any]] = {
        status: {"model": Error, "description": description}
        for status, description in (
            (400, "a body that cannot be read, or another host name"),
            (405, "another method"),
            (408, "a body that did not arrive in time"),
            (413, "a body that is too long"),
            (415, "a body that is not JSON"),
            (422, "a question that cannot be answered"),
            (500, "a failure of the server"),
            (503, "too many questions are waiting"),
            (504, "no answer in time"),
        )
    }

    seen: dict[int | str, dict[str, Any]] = {status: refused[status] for status in (400, 413, 500)}

    def chosen(name: str | None, questions: Sequence[QuestionFields]) -> tuple[ServedModel, list[Question]]:
        model = next(iter(models.values())) if name is None else models.get(name)
        if model is None:
            raise HTTPException(422, f'there is no model "{(name or "")[:60]}"; there is {", ".join(models)}')
        parsed = [Question(one.text, one.pair, one.predicate) for one in questions]
        for place, question in enumerate(parsed):
            try:
                model.check(question)
            except InputError as error:
                raise HTTPException(422, str(error) if len(parsed) == 1 else f"question {place + 1}: {error}") from None
        return model, parsed

    @app.api_route("/", methods=["GET", "HEAD"], response_class=HTMLResponse, include_in_schema=False)
    async def explorer() -> HTMLResponse:
        return HTMLResponse(explorer_page(), headers={"content-security-policy": content_security_policy()})

    @app.head("/health", include_in_schema=False)
    @app.get("/health", operation_id="health", responses=seen)
    async def health() -> Health:
        """Status of the server, and its models."""
        if not app.state.queue.alive:
            raise HTTPException(500, "the prediction worker has stopped; restart the server")
        return Health(status="ok", version=version, models=list(models))

    @app.get("/api/models", operation_id="models", responses=seen)
    async def list_models() -> list[ModelFacts]:
        """The served models."""
        return [ModelFacts(**model.facts()) for model in models.values()]

    @app.post("/api/predict", operation_id="predict", responses=refused, response_model=Answers)
    async def predict(body: PredictRequest, request: Request) -> JSONResponse:
        """Predictions for questions, in order. Concurrent requests are batched."""
        model, asked = chosen(body.model, body.questions)
        found = await _until_disconnect(request, app.state.queue.ask(model, asked, limits.seconds))
        return JSONResponse({"model": model.name, "answers": found})

    @app.post("/api/look", operation_id="look", responses=refused, response_model=Looks)
    async def look(body: LookRequest, request: Request) -> Response:
        """The attention weights of every head and feature for a text."""
        model, (asked,) = chosen(body.model, [body.question])
        found = await _until_disconnect(
            request, app.state.queue.do(lambda: model.look(asked, limits.explained_words), limits.seconds)
        )
        return Response(found, media_type="application/json")

    app.add_exception_handler(InputError, _invalid_input)
    app.add_exception_handler(QueueFullError, _queue_full)
    app.add_exception_handler(TimeoutError, _timed_out)
    return RequestMiddleware(app, limits=limits, hosts=hosts)


async def _until_disconnect(request: Request, answer: Coroutine[Any, Any, T]) -> T:
    """Await a response; cancel the work if the client disconnects."""
    work = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(request.receive())  # the body was read, so the next message is the disconnect
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise HTTPException(499, "the client has gone")
        return work.result()
    finally:
        work.cancel()
        gone.cancel()


def _error_response(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": " ".join(sentence.split())}, status, headers)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    messages = {
        400: "the body cannot be read as JSON",
        404: "there is nothing here; the page is at /, the description of the API at /openapi.json",
        405: f"{request.method} is not supported by this path; see /openapi.json",
    }
    sentence = str(error.detail) if error.status_code == 422 else messages.get(error.status_code, str(error.detail))
    return _error_response(error.status_code, sentence, dict(error.headers or {}))


async def _invalid_body(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return _error_response(422, describe_error(error.errors()[0]))


async def _invalid_input(request: Request, error: Exception) -> JSONResponse:
    return _error_response(422, str(error))


async def _queue_full(request: Request, error: Exception) -> JSONResponse:
    return _error_response(503, "too many questions are waiting; try again in a few seconds", {"retry-after": "5"})


async def _timed_out(request: Request, error: Exception) -> JSONResponse:
    return _error_response(504, "the prediction took too long; send fewer or shorter texts per request")


async def _server_error(request: Request, error: Exception) -> JSONResponse:
    _log.error("a request failed", exc_info=error)
    return _error_response(500, "internal error; see the log of the server")
