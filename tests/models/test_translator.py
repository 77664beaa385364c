"""The translator itself: its architecture, and its beam search against a plain one."""

import pytest
import torch

from mtsa.data.subwords import END_ID
from mtsa.models.translator import build_translator, translate, translator_config


def test_the_architecture_is_the_papers():
    config = translator_config(99, layers=1, width=32, heads=2, hidden=48, dropout=0.1, attention_dropout=0.2, swap=None)
    assert config.scale_embedding
    assert config.activation_function == "relu"
    assert config.tie_word_embeddings
    assert (config.decoder_start_token_id, config.eos_token_id, config.pad_token_id) == (2, 2, 0)
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (0.1, 0.2, 0.1)
    model = build_translator(config)
    assert model.lm_head.weight is model.model.shared.weight is model.model.encoder.embed_tokens.weight


def random_translator():
    torch.manual_seed(3)
    config = translator_config(12, layers=1, width=16, heads=2, hidden=16, dropout=0.0, attention_dropout=0.0, swap=None)
    model = build_translator(config).eval()
    with torch.no_grad():
        model.model.shared.weight.normal_(std=1.0)
    return model


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
def test_the_beam_finds_what_a_plain_beam_search_finds(penalty):
    """Four translations followed at once, each whole one's score divided by its length to the power of the penalty."""
    model, row, beam = random_translator(), [5, 7, 9, END_ID], 4

    @torch.no_grad()
    def following(answer):
        scores = model(torch.tensor([row]), decoder_input_ids=torch.tensor([answer])).logits[0, -1].log_softmax(-1)
        return scores.tolist()

    alive, done, limit = [(0.0, [END_ID])], [], 2 * 16 + 10
    for length in range(1, limit + 1):
        ways = sorted(((s + f, [*a, t]) for s, a in alive for t, f in enumerate(following(a))), reverse=True)[: 2 * beam]
        alive = []
        for rank, (score, answer) in enumerate(ways):
            if answer[-1] == END_ID or length == limit:
                if rank < beam:
                    done.append((score / length**penalty, answer))
            elif len(alive) < beam:
                alive.append((score, answer))
        if len(done) >= beam:
            break
    wanted = [token for token in max(done)[1] if token > 2]
    assert translate(model, [row], num_beams=beam, length_penalty=penalty) == [wanted]


def test_a_translation_does_not_depend_on_its_neighbours():
    model = random_translator()
    rows = [[5, END_ID], [*([5, 7, 9, 4] * 10), END_ID], [6, 6, END_ID], [8] * 15 + [END_ID]]
    for beam in (1, 4):
        alone = [translate(model, [row], num_beams=beam, length_penalty=0.6)[0] for row in rows]
        assert translate(model, rows, num_beams=beam, length_penalty=0.6) == alone
