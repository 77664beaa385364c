"""The paper's tables by name."""

from reproduce.table import Table, by_name

from .classification import CLASSIFICATION
from .documents import DOCUMENTS
from .entities import ENTITIES
from .fine_tuning import FINE_TUNING
from .nli import NLI
from .pretrained import PRETRAINED
from .repairs import REPAIRS
from .srl import SRL
from .translation import TRANSLATION

TABLES: dict[str, Table] = by_name(
    [CLASSIFICATION, NLI, SRL, TRANSLATION, PRETRAINED, ENTITIES, DOCUMENTS, FINE_TUNING, REPAIRS]
)

__all__ = [
    "CLASSIFICATION",
    "DOCUMENTS",
    "ENTITIES",
    "FINE_TUNING",
    "NLI",
    "PRETRAINED",
    "REPAIRS",
    "SRL",
    "TABLES",
    "TRANSLATION",
]
