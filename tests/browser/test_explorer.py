"""The explorer page in a real browser: type, point, choose, compare, save, and be told what is wrong."""

import pytest

from tests.trained_models import CLAUSES, attention_maps

pytestmark = pytest.mark.slow


def ask(page, text, pair=None):
    page.locator("#text").fill(text)
    if pair is not None:
        page.locator("#pair").fill(pair)
    with page.expect_response("**/api/explain") as answer:
        page.get_by_role("button", name="Predict").click()
    page.locator("article").first.wait_for()
    return answer.value.json()


def words(page, panel=0):
    return page.locator(".attention").nth(panel).locator(".words button")


def blues(page):
    """How many kinds of blue the first map has."""
    return page.locator("canvas").first.evaluate(
        """canvas => {
                const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
                for (let at = 0; at < data.length; at += 4)
                    if (data[at + 3] && data[at + 2] > data[at] + 20) seen.add(`${data[at]} ${data[at + 1]}`);
                return seen.size;
            }"""
    )


def test_a_sentence_is_answered(page):
    found = ask(page, "there is a small red apple here")
    assert page.locator(".prediction").inner_text() in ("colour", "fruit")
    figures = page.locator(".bars .figure").all_inner_texts()
    assert sum(float(figure.split()[0]) for figure in figures) == pytest.approx(100, abs=0.2)
    assert words(page).all_inner_texts() == ["there", "is", "a", "small", "red", "apple", "here"]
    assert words(page).all_inner_texts() == found["sentences"][0]["words"]
    assert page.locator("figcaption").all_inner_texts() == [
        "Head 1 (forward): attends to earlier words",
        "Head 2 (backward): attends to later words",
        "Source2token weights by head",
        "Pooling weights (mean over features)",
    ]
    assert blues(page) > 1


def test_pointing_at_a_word_shows_where_it_looks(page):
    found = ask(page, "there is a small red apple here")["sentences"][0]
    words(page).nth(4).hover()
    told = page.locator(".readout").inner_text()
    row = found["layers"][0]["token2token"][0][4]
    best = max(range(len(row)), key=row.__getitem__)
    assert told.startswith(
        f"\u201cred\u201d attends to: head 1: \u201c{found['words'][best]}\u201d {round(100 * row[best])} %"
    )
    assert "head 2: " in told
    strip = page.locator(".strip").first.locator("span")
    assert strip.nth(best).get_attribute("title").startswith(f"{100 * row[best]:.1f} %")
    assert strip.nth(5).get_attribute("title").startswith("0.0 %")  # a later word
    words(page).nth(0).hover()
    assert "head 1: no allowed key" in page.locator(".readout").inner_text()
    page.mouse.move(5, 5)
    assert "Hover over a word" in page.locator(".readout").inner_text()


def test_the_keyboard_is_enough(page):
    page.locator("#text").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("a red pear")
    with page.expect_response("**/api/explain"):
        page.keyboard.press("Enter")
    page.locator(".words button", has_text="pear").wait_for()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.closest('.words') !== null"):
            break
    assert "\u201ca\u201d attends to" in page.locator(".readout").inner_text()
    page.keyboard.press("ArrowRight")
    assert "\u201cred\u201d attends to" in page.locator(".readout").inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # there is no further word
    assert "\u201cpear\u201d attends to" in page.locator(".readout").inner_text()
    page.keyboard.press("Home")
    assert "\u201ca\u201d attends to" in page.locator(".readout").inner_text()
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.type") == "range"
    assert "\u201cpear\u201d attends to" in page.locator(".readout").inner_text()  # it stays chosen
    page.keyboard.press("ArrowRight")
    assert "feature 1" in page.locator("figcaption").first.inner_text()


def test_a_feature_has_weights_of_its_own(page):
    found = ask(page, "there is a small red apple here")["sentences"][0]["layers"][0]
    page.locator("input[type=range]").fill("3")
    assert page.locator("output").inner_text() == "3 of 5"
    words(page).nth(4).hover()
    pairs, source = found["token2token"][0][4], [values[2] for values in found["source2token"][0]]
    product = [one * other for one, other in zip(pairs, source, strict=True)]
    wanted = [value / sum(product) for value in product]
    titles = page.locator(".strip").first.locator("span").evaluate_all("spans => spans.map(span => span.title)")
    assert [float(title.split()[0]) for title in titles] == pytest.approx([100 * value for value in wanted], abs=0.06)
    page.locator("input[type=range]").fill("0")
    assert page.locator("output").inner_text() == "all 5"


def test_two_models_side_by_side(page):
    ask(page, "a small red apple")
    with page.expect_response("**/api/explain"), page.expect_response("**/api/explain"):
        page.locator("#compare").select_option(label="b")
    page.locator("#models.two").wait_for()
    assert page.locator("article").count() == 2
    first, second = (page.locator("article").nth(place).bounding_box() for place in (0, 1))
    assert first["y"] == pytest.approx(second["y"], abs=1)
    assert first["x"] < second["x"]
    words(page, 0).nth(2).hover()
    assert words(page, 1).nth(2).get_attribute("aria-pressed") == "true"  # the same word in the other model
    assert page.locator("#compare option").all_inner_texts() == ["none", "b"]  # models of other tasks are not offered


def test_the_feature_is_the_same_in_both_models(page):
    ask(page, "a small red apple")
    page.locator("#compare").select_option(label="b")
    page.locator("#models.two").wait_for()
    page.locator("input[type=range]").first.fill("2")
    assert page.locator("output").all_inner_texts() == ["2 of 5", "2 of 5"]
    ask(page, "a small blue plum")
    assert page.locator("output").first.inner_text() == "2 of 5"  # and the next sentence begins with it


def test_maps_are_the_right_way_round(page):
    """Rows look, columns are looked at: a forward head has colour below the diagonal, a backward head above it."""
    ask(page, "there is a small red apple here")

    def blue(number, row, column):
        return (
            page.locator("canvas")
            .nth(number)
            .evaluate(
                """(canvas, [row, column]) => {
                const scale = window.devicePixelRatio || 1, words = 7, cell = 22;
                const wide = canvas.width / scale, left = wide - 2 - cell * words;
                const x = (left + (column + .3) * cell) * scale, y = (row + .3) * cell * scale;
                const [r, g, b, a] = canvas.getContext("2d").getImageData(Math.round(x), Math.round(y), 1, 1).data;
                return a > 0 && b > r + 20;
            }""",
                [row, column],
            )
        )

    assert blue(0, 5, 1)
    assert not blue(0, 1, 5)
    assert blue(1, 1, 5)
    assert not blue(1, 5, 1)
    assert not any(blue(0, 0, column) for column in range(7))  # the first word has nothing to look at


def test_pointing_at_a_cell_gives_its_number(page):
    found = ask(page, "there is a small red apple here")["sentences"][0]["layers"][0]["token2token"][0]
    box = page.locator("canvas").first.bounding_box()
    left = box["width"] - 2 - 22 * 7
    page.locator("canvas").first.hover(position={"x": left + 22 * 1.5, "y": 22 * 5.5})
    told = page.locator(".readout").inner_text()
    assert f"Head 1: \u201capple\u201d \u2192 \u201cis\u201d: {100 * found[5][1]:.1f} %" in told


def test_a_word_stays_chosen_after_a_click_and_the_page_does_not_jump(page):
    ask(page, "there is a small red apple here")
    before = page.get_by_role("button", name="Save as PNG").bounding_box()
    words(page).nth(4).click()
    page.mouse.move(5, 5)
    assert "\u201cred\u201d attends to" in page.locator(".readout").inner_text()
    assert page.get_by_role("button", name="Save as PNG").bounding_box() == before
    page.keyboard.press("Escape")
    assert "Hover over a word" in page.locator(".readout").inner_text()


def test_panels_that_were_replaced_are_let_go(page):
    session = page.context.new_cdp_session(page)
    for text in ("a red pear", "a blue plum", "a green apple", "a red pear"):
        ask(page, text)
    page.locator(".words button", has_text="red").wait_for()
    session.send("HeapProfiler.collectGarbage")
    prototype = session.send("Runtime.evaluate", {"expression": "HTMLCanvasElement.prototype"})["result"]["objectId"]
    kept = session.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"]["objectId"]
    length = session.send("Runtime.getProperties", {"objectId": kept, "ownProperties": True})["result"]
    assert next(one["value"]["value"] for one in length if one["name"] == "length") <= 8


def test_pairs(page):
    with page.expect_response("**/api/explain"):
        page.locator("#model").select_option(label="p")
    page.locator(".attention").nth(1).wait_for()
    found = ask(page, "A dog runs .", "An animal moves .")
    assert [one["words"] for one in found["sentences"]] == [["A", "dog", "runs", "."], ["An", "animal", "moves", "."]]
    page.locator(".words button", has_text="animal").wait_for()
    assert page.locator(".attention").count() == 2
    assert page.locator(".prediction").inner_text() in ("entailment", "neutral", "contradiction")
    page.locator("#pair").fill(" ")
    page.get_by_role("button", name="Predict").click()
    assert "second text" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize("name", ["t", "r", "tr"])
def test_other_tasks(page, name):
    page.locator("#model").select_option(label=name)
    shown = page.locator(f'article[aria-label="{name}"]')
    shown.locator("canvas").first.wait_for()
    if name == "tr":
        assert shown.locator(".prediction").inner_text()
    if name == "t":
        assert page.locator(".tagged > span").count() == len(page.locator("#text").input_value().split())
        page.locator("select", has_text="1 of 2").select_option(label="1 of 2")
        assert page.locator("figure").count() >= 3
    if name == "r":
        ask(page, CLAUSES)
        shown.locator(".frame").nth(1).wait_for()
        shown.locator(".frame button").nth(1).click()
        assert shown.locator(".frame button").all_inner_texts()[:2] == ["Show attention", "Attention shown below"]


def test_bad_input_gets_a_sentence(page):
    page.locator("#text").fill("   ")
    page.get_by_role("button", name="Predict").click()
    assert "text" in page.get_by_role("alert").inner_text()
    page.locator("#text").fill("red " * 3000)
    with page.expect_response("**/api/predict"):
        page.get_by_role("button", name="Predict").click()
    page.get_by_role("alert").filter(has_text="has more than 10,000 characters").wait_for()
    page.told[:] = [line for line in page.told if "422" not in line]  # Chromium notes the refusal
    ask(page, "a red pear")
    assert not page.get_by_role("alert").is_visible()


def test_what_is_typed_stays_text(page):
    found = ask(page, "<img src=x onerror=alert(1)> </script> red")
    assert page.locator("img").count() == 0
    assert words(page).all_inner_texts() == found["sentences"][0]["words"]


def test_the_picture_can_be_saved(page, tmp_path):
    ask(page, "there is a small red apple here")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as PNG").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 5_000


@pytest.mark.parametrize("page", [{"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}], indirect=True)
def test_a_phone_in_the_dark(page):
    ask(page, "there is a small red apple here and it is quite old")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"


def test_a_long_sentence_stays_readable(page):
    text = " ".join(["red", "\u65e5\u672c\u8a9e\u306e\u6587", "Donaudampfschifffahrtsgesellschaft", "apple"] * 25)
    found = ask(page, text)
    assert len(found["sentences"][0]["words"]) == 100
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1200
    box = page.locator("canvas").first.bounding_box()
    assert 300 < box["width"] < 700


def test_the_page_of_explain_works_by_itself(chromium, runs, tmp_path):
    from mtsa.inference.attention_page import write_page

    found = attention_maps(runs["classification"], "there is a small red apple here")
    write_page(found, tmp_path / "page.html")
    context = chromium.new_context(offline=True)
    opened, told = context.new_page(), []
    opened.on("console", lambda message: told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.goto((tmp_path / "page.html").as_uri())
    opened.locator(".words button").nth(4).hover()
    assert opened.locator(".readout").inner_text().startswith("\u201cred\u201d attends to: head 1: ")
    assert opened.locator("h2").inner_text() == found[0].prediction
    context.close()
    assert told == []
