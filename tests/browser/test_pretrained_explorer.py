"""The explorer page for models over a pretrained encoder: bars of contributions, merged words, pairs as one sequence."""

import pytest
from reproduce.benchmarks.serving import serving

from tests.browser.test_explorer import ask, words
from tests.inference.test_pretrained_explain import TEXT, WORDS

pytestmark = pytest.mark.slow
NAMES = ("texts", "pooled", "attended_pairs")


@pytest.fixture(scope="module")
def address(bert_runs):
    with serving(*(bert_runs[name].run.folder for name in NAMES)) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def page(chromium, address, request):
    context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}, **getattr(request, "param", {})})
    opened, told = context.new_page(), []
    opened.on("console", lambda message: told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.goto(address)
    opened.locator(".words button").first.wait_for()
    yield opened
    context.close()
    assert [line for line in told if "willReadFrequently" not in line] == []


def choose(page, name):
    with page.expect_response("**/api/explain"):
        page.locator("#model").select_option(label=name)
    page.locator(f'article[aria-label="{name}"] .attention').first.wait_for()


def shown(value):
    sign = "\u2212" if value <= -0.005 else "+"
    return f"{sign}{abs(value):.2f}"


def test_each_word_has_a_bar_with_its_value(page):
    (found,) = ask(page, TEXT)["sentences"]
    page.locator(".words button", has_text="Redder").wait_for()
    assert words(page).all_inner_texts() == WORDS
    assert "bert + embedding" in page.locator("h2").inner_text()
    bars = page.locator(".contributions > span")
    assert bars.locator("b").all_inner_texts() == WORDS
    assert bars.locator("small").all_inner_texts() == [shown(value) for value in found["contributions"]]
    top = max(map(abs, found["contributions"]))
    for place, value in enumerate(found["contributions"]):
        track, bar = (bars.nth(place).locator(name).bounding_box() for name in (".bar", "i"))
        assert bar["width"] == pytest.approx(track["width"] / 2 * abs(value) / top, abs=1)
        middle = track["x"] + track["width"] / 2
        start = bar["x"] if value >= 0 else bar["x"] + bar["width"]
        assert start == pytest.approx(middle, abs=1)
    total = sum(found["contributions"]) + found["bias"]
    assert f"the output {shown(total)}" in page.locator("figcaption").inner_text()
    words(page).nth(2).hover()
    assert (
        page.locator(".readout").inner_text()
        == f"\u201cRedder\u201d contributes {shown(found['contributions'][2])} to the output."
    )
    assert page.locator("input[type=range]").count() == 0
    assert page.locator("canvas").count() == 0


def test_pooling_without_attention(page):
    choose(page, "pooled")
    (found,) = ask(page, TEXT)["sentences"]
    page.locator(".words button", has_text="Redder").wait_for()
    share = sum(found["pooling"][2]) / len(found["pooling"][2])
    words(page).nth(2).hover()
    assert f"has {100 * share:.1f} % of the pooling weight" in page.locator(".readout").inner_text()
    assert page.locator(".strip span").all_inner_texts() == WORDS
    assert page.locator(".contributions").count() == 0


def test_a_pair_is_one_map_and_features_are_those_of_pieces(page, bert_runs):
    from mtsa.tasks.predictor import ModelInput

    choose(page, "attended_pairs")
    ask(page, TEXT, "A bluish plum")
    page.locator(".words button", has_text="bluish").wait_for()
    assert page.locator(".attention").count() == 1
    assert words(page).all_inner_texts() == [*WORDS, "A", "bluish", "plum", "[SEP]"]
    assert page.locator(".contributions > span").count() == 9
    page.locator("input[type=range]").fill("3")
    words(page).nth(3).hover()
    (maps,) = bert_runs["attended_pairs"].explain(ModelInput(TEXT, "A bluish plum"))
    wanted = maps.layers[0].pairs(2)[0, 3].tolist()
    titles = page.locator(".strip").first.locator("span").evaluate_all("spans => spans.map(span => span.title)")
    assert [float(title.split()[0]) for title in titles] == pytest.approx([100 * value for value in wanted], abs=0.06)


@pytest.mark.parametrize("name", NAMES)
def test_pictures_can_be_saved(page, name, tmp_path):
    if name != "texts":
        choose(page, name)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as PNG").click()
    download.value.save_as(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.png").stat().st_size > 3_000


@pytest.mark.parametrize("page", [{"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}], indirect=True)
def test_a_phone(page):
    ask(page, f"{TEXT} and {'very' * 30} old pears")
    page.locator(".words button", has_text="pears").wait_for()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


def test_the_page_of_explain(chromium, bert_runs, tmp_path):
    from mtsa.inference.attention_page import write_page

    found = bert_runs["texts"].explain(TEXT)
    write_page(found, tmp_path / "page.html")
    context = chromium.new_context(offline=True)
    opened, told = context.new_page(), []
    opened.on("console", lambda message: told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.goto((tmp_path / "page.html").as_uri())
    assert opened.locator(".contributions small").all_inner_texts() == [
        shown(value) for value in found[0].contributions.tolist()
    ]
    context.close()
    assert told == []
