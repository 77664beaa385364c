"""What the package uses of `transformers` without a public interface still behaves as expected."""

import transformers

from mtsa.models.transformers_internals import attention_implementation


def test_the_attention_implementation_can_be_read():
    config = transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    model = transformers.BertModel(config)
    for name in ("eager", "sdpa"):
        model.set_attn_implementation(name)
        assert attention_implementation(model.config) == name, (
            f"transformers {transformers.__version__} keeps the name of the attention implementation elsewhere than in "
            "config._attn_implementation: change mtsa.models.transformers_internals.attention_implementation"
        )
