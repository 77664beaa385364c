"""A folder with the files that the documentation refers to, in which its commands are executed."""

import json
import re
import shutil
import zipfile
from pathlib import Path

from mtsa.corpora import corpus_files
from tests.sample_data import TOPICS, glove, parallel, sentences, tagged, topics, write_csv
from tests.tiny_bert import write_bert

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```", re.S | re.M)
PROGRAMS = ("mtsa ", ".venv/bin/mtsa ", "python ", "pip ", "make ", "torchrun ", "curl ")
FILLED_IN = {"RUN": "runs/reviews", "FILE": "test.csv", "BIG": "reviews", "DEV": "test"}

ELSEWHERE = {
    "make ": "runs the tests, or takes minutes",
    ". .venv/bin/activate": "changes the shell",
    "python examples/": "tests/test_examples.py",
    "python docs/readme.py": "writes README.md; tests/test_docs.py compares it",
    "pip install": "needs a network; tests/test_packaging.py installs what was built",
    "mtsa data get": "needs a network; tests/data/test_downloads.py has a server of its own",
    "python -m reproduce table classification": "needs data sets and hours; tests/reproduce runs small ones",
    "python -m reproduce table nli": "as above",
    "python -m reproduce table srl": "as above",
    "python -m reproduce table translation": "as above",
    "python -m reproduce table repairs": "as above",
    "python -m reproduce bench paper": "needs data sets; tests/reproduce",
    "python -m reproduce figure": "needs records of table nli; tests/reproduce",
    "python -m reproduce bench nli": "needs SNLI; tests/reproduce",
    "python -m reproduce bench translation": "takes minutes; tests/bench",
    "python -m reproduce bench srl": "takes minutes; tests/bench",
    "mtsa bench layer": "takes minutes; tests/bench",
    "mtsa bench gpu": "needs a GPU, or takes minutes; tests/bench",
    "python -m reproduce bench cost": "takes minutes; tests/bench",
    "mtsa layer": "takes a minute; tests/test_cli.py",
    "python -m tests.robustness": "takes ten minutes; tests/robustness",
    "torchrun": "tests/training/test_processes.py",
    "mtsa serve": "never ends; tests/serve/test_serve.py, tests/browser",
    "curl": "needs the server; tests/serve/test_api.py",
    "mtsa train snli.cpu": "needs SNLI; tests/training/test_recipes.py",
    "python -m reproduce table pretrained": "needs MiniLM and the data sets; tests/reproduce/test_table.py",
    "python -m reproduce table entities": "needs MiniLM and the data set; tests/reproduce/test_table.py",
    "python -m reproduce table fine-tuning": "needs MiniLM and the data sets; tests/reproduce/test_table.py",
    "python -m reproduce bench texts": "needs MiniLM; tests/reproduce/test_texts_per_second.py",
    "mtsa train snli.gpt.paper": "needs a network and SNLI; tests/training/test_transfer.py",
    "mtsa train snli.minilm.cpu": "needs SNLI; tests/training/test_transfer.py",
    "mtsa train snli.gpt.cpu": "needs SNLI; tests/training/test_transfer.py",
    "mtsa pretrain": "takes minutes; tests/training/test_transfer.py",
    "mtsa train srl.paper": "needs licensed files",
    "mtsa train srl.minilm.cpu": "needs data sets; tests/training/test_recipes.py",
}
"""Commands that are not run with the documents, by how they begin, and why."""


def furnish(folder):
    """Write the files."""
    (folder / "data").mkdir()
    shutil.copytree(ROOT / "results", folder / "results", ignore=shutil.ignore_patterns(".work"))
    for seed, name in enumerate(("reviews.csv", "test.csv", "new.csv")):
        write_csv(folder / name, sentences(60, seed))
    shutil.copytree(ROOT / "examples" / "data", folder / "examples" / "data")
    write_bert(folder / "bert")
    sides = zip(sentences(60, 3), sentences(60, 4), strict=True)
    flagged = [(text, ",".join(str(int(name in labels)) for name in TOPICS)) for text, labels in topics(60)]
    write_csv(folder / "comments.csv", flagged, header="text,insult,threat,spam")
    rows = [(f"{one},{other}", label) for (one, label), (other, _) in sides]
    write_csv(folder / "pairs.csv", rows, header="premise,hypothesis,label")
    scored = [(f"{text},{text}", len(text)) for text, _ in sentences(60, 5)]
    write_csv(folder / "scored-pairs.csv", scored, header="first,second,score")
    (folder / "sentences.txt").write_text("".join(f"{text} .\n" for text, _ in sentences(12)))
    for seed, name in enumerate(("names.conll", "train.conll", "test.conll")):
        tagged(folder / name, 40, seed)
    for name, part in (("train", "train"), ("dev", "dev"), ("wsj", "test"), ("brown", "dev"), ("gold", "test")):
        for ending in (".props", ".words"):
            shutil.copy(corpus_files("corpus:roles")[part].with_suffix(ending), folder / f"{name}{ending}")
    for seed, name in enumerate(("train", "dev", "test", "new")):
        parallel(folder, name, 40, seed)
    with zipfile.ZipFile(folder / "data" / "glove.6B.zip", "w") as packed:
        packed.write(glove(folder / "glove.txt"), "glove.6B.100d.txt")
    for name in ("data/snli_1.0_test.jsonl", "multinli_test.jsonl"):
        pairs = [
            {"sentence1": text, "sentence2": text, "gold_label": label, "pairID": str(number)}
            for number, (text, label) in enumerate(sentences(20))
        ]
        (folder / name).write_text("".join(json.dumps(pair) + "\n" for pair in pairs))


def blocks(page):
    """The code of a page: (language, text)."""
    return BLOCK.findall(page.read_text())


def commands(page):
    """The commands of a page; in console blocks, the lines with a prompt. A synopsis with [--options] is not a command."""
    found = []
    for language, block in blocks(page):
        if language == "console":
            found += re.findall(r"^\$ (.+)$", block, re.M)
        if language or not block.startswith(PROGRAMS):
            continue
        own = []
        for line in block.replace("\\\n", " ").splitlines():
            plain = line.split("#")[0].rstrip()
            if plain.startswith(" ") and own:
                own[-1] += plain
            elif plain:
                own.extend(part.strip() for part in plain.split(";"))
        found += [filled_in(command) for command in own if "[--" not in command]
    return found


def filled_in(command):
    """A command with names in the place of its words in capitals."""
    paired = any(option in command for option in ("--pair ", "--submission"))
    command = command.replace(" RUN ", " runs/snli ") if paired else command
    return re.sub(r"\b(?:RUN|FILE|BIG|DEV)\b", lambda found: FILLED_IN[found[0]], command)
