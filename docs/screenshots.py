"""Take the screenshots in docs/images: train three models, serve them, and open the page in a headless Chromium.

make screenshots
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from reproduce.benchmarks.serving import serving

import mtsa

IMAGES = Path(__file__).parent / "images"
QUESTION = "Who painted the ceiling of the old chapel ?"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def main() -> None:
    """Take all screenshots."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("no Chromium on this machine; install it first")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / name for name in ("questions", "another-seed")]
        for seed, run in enumerate(runs):
            mtsa.train("questions.cpu", out=run, settings={"training.seed": seed})
        tuned = Path(folder) / "minilm"
        mtsa.train(train="corpus:questions", pretrained="minilm", out=tuned, settings={"training.epochs": 2})
        with serving(*runs) as port, sync_playwright() as started:
            opened = started.chromium.launch(executable_path=browser, args=FLAGS)
            wide = {"width": 1100, "height": 700}
            _shoot(opened.new_page(viewport=wide), port, "explorer", lambda page: page.locator(".words button").nth(3).hover())
            _shoot(
                opened.new_page(viewport=wide),
                port,
                "explorer-feature",
                lambda page: page.locator("input[type=range]").fill("7"),
            )
            _shoot(opened.new_page(viewport={"width": 1300, "height": 700}), port, "explorer-compare", _compare)
            phone = opened.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
            _shoot(phone, port, "explorer-phone", lambda page: page.locator(".words button").nth(3).hover())
            opened.close()
        with serving(tuned) as port, sync_playwright() as started:
            opened = started.chromium.launch(executable_path=browser, args=FLAGS)
            _shoot(opened.new_page(viewport=wide), port, "explorer-contributions", lambda page: None)
            opened.close()


def _shoot(page: Page, port: int, name: str, act) -> None:  # noqa: ANN001
    page.goto(f"http://127.0.0.1:{port}/")
    page.locator(".words button").first.wait_for()
    page.locator("#text").fill(QUESTION)
    page.get_by_role("button", name="Predict").click()
    page.locator(".words button", has_text="painted").wait_for()
    act(page)
    page.screenshot(path=IMAGES / f"{name}.png", full_page=True)
    print(IMAGES / f"{name}.png")


def _compare(page: Page) -> None:
    page.locator("#compare").select_option(label="another-seed")
    page.locator("#models.two").wait_for()
    page.locator(".words button").nth(3).hover()


if __name__ == "__main__":
    main()
