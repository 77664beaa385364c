"""The explorer page for a model with several labels per text, and its tables of mistakes and near-duplicates."""

import pytest
from reproduce.benchmarks.serving import serving

import mtsa
from tests.browser.test_explorer import ask
from tests.sample_data import topics, write_topics
from tests.tiny_bert import write_bert

pytestmark = pytest.mark.slow
TEXT = "the red pear"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("topics")
    steps = {
        "training.max_steps": 120,
        "training.learning_rate": 0.01,
        "pretrained.lr_multiplier": 1.0,
        "training.warmup_steps": 0,
    }
    train = write_topics(folder / "train.csv", topics(200))
    given = {"train": train, "label_separator": "|", "pretrained": write_bert(folder / "bert"), "out": folder / "run"}
    made = mtsa.train(task="multilabel", settings=steps, **given)
    made.evaluate([(TEXT, ["size"]), (f"{TEXT} !", []), ("<b>a plum</b>", ["size"])], errors=folder / "errors.jsonl")
    return made


@pytest.fixture
def page(chromium, model):
    with serving(model.run.folder, "--errors", model.run.folder.parent / "errors.jsonl") as port:
        context = chromium.new_context(viewport={"width": 1200, "height": 900})
        opened, told = context.new_page(), []
        opened.on("console", lambda message: told.append(message.text))
        opened.on("pageerror", lambda error: told.append(str(error)))
        opened.goto(f"http://127.0.0.1:{port}/")
        opened.locator(".words button").first.wait_for()
        yield opened
        context.close()
        assert [line for line in told if "willReadFrequently" not in line] == []


def test_each_predicted_label_has_a_panel(page, model):
    found = ask(page, TEXT)
    (wanted,) = model.predict([TEXT])
    assert len(wanted.labels) == 2
    page.locator("article h3").nth(1).wait_for()
    assert page.locator(".prediction").inner_text() == ", ".join(wanted.labels)
    assert page.locator("article h3").all_inner_texts() == [one["prediction"] for one in found["sentences"]]
    assert page.locator(".bars .name").count() == 3


def test_a_click_on_a_mistake_predicts_it(page):
    box = page.locator("#errors")
    assert box.locator("summary").inner_text().startswith("Mistakes of run (3), near-duplicates with different labels (")
    box.locator("summary").click()
    rows = box.locator("table").first.locator("tr")
    assert rows.count() == 4
    assert box.locator("table").first.locator("th").nth(5).inner_text() == "Words for label"
    assert box.locator("table").nth(1).locator("td").first.inner_text()
    text = "<b>a plum</b>"  # is text, not markup
    with page.expect_response("**/api/explain"):
        box.get_by_role("button", name=text).click()
    assert page.locator("#text").input_value() == text
