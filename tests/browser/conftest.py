"""A real headless Chromium, and a server with a model of each task."""

import shutil

import pytest
from reproduce.benchmarks.serving import serving

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)


@pytest.fixture(scope="module")  # while it is open, an event loop runs here, and no test can start another
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium on this machine; make test-all installs it")
    with api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address(runs, second_run):
    """Of a server with the runs, and a second classifier to compare with."""
    folders = [
        runs["classification"].run.folder,
        second_run,
        *(runs[task].run.folder for task in runs if task != "classification"),
    ]
    with serving(*folders) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="session")
def second_run(runs, tmp_path_factory):
    import mtsa
    from tests.sample_data import sentences, write_csv
    from tests.trained_models import QUICK

    folder = tmp_path_factory.mktemp("second")
    return mtsa.train(
        train=write_csv(folder / "a.csv", sentences(60)), out=folder / "b", settings={**QUICK, "training.seed": 5}
    ).run.folder


@pytest.fixture
def page(chromium, address, request):
    """The page, opened; nothing may be written to its console, and nothing asked of another host."""
    options = getattr(request, "param", {})
    context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    opened = context.new_page()
    told, asked = [], []
    opened.on("console", lambda message: told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.on("request", lambda sent: asked.append(sent.url))
    opened.told = told
    opened.goto(address)
    opened.locator("canvas").first.wait_for()
    yield opened
    assert all(url.startswith((address, "data:", "blob:")) for url in asked)
    context.close()
    assert [line for line in told if "willReadFrequently" not in line] == []
