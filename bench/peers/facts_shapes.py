# SPDX-License-Identifier: Apache-2.0
"""What torch_facts.py measures, as numbers: shapes of shipped models, operations and bytes of each, and the CSV files."""
import csv
import datetime

# Models with grouped-query attention and heads of 64 and 128 (data/models); DeepSeek's latent attention multiplies queries
# and keys of 192, and values of 128, which fused kernels take at one size of 192.
ATTENTION = [("mixtral-8x7b", 32, 8, 128), ("qwen3-30b-a3b", 32, 4, 128), ("gpt-oss-20b", 64, 8, 64), ("olmoe-1b-7b", 16, 16, 128),
             ("deepseek-v2-lite", 16, 16, 192)]  # fmt: skip
SEQUENCES = (2048, 4096, 8192, 16384, 32768)
ATTENTION_TOKENS = 16384  # of a call, where a sample is no longer
# (model, experts, choices of a token, hidden, hidden of an expert); the rows of a call are those of TOKENS tokens.
EXPERTS = [("mixtral-8x7b", 8, 2, 4096, 14336), ("qwen3-30b-a3b", 128, 8, 2048, 768), ("olmoe-1b-7b", 64, 8, 2048, 1024)]
TOKENS = 8192
VOCABULARY = 32000  # mixtral-8x7b's
PROVENANCE = ("gpu", "driver", "torch", "cuda", "revision", "created")


def attention_shapes(quick=False):
    """(model, batch, sequence, heads, kv_heads, head_size)."""
    for model, heads, kv_heads, head_size in ATTENTION[: 1 if quick else None]:
        for sequence in (64,) if quick else SEQUENCES:
            yield model, max(1, ATTENTION_TOKENS // sequence) if not quick else 1, sequence, heads, kv_heads, head_size


def attention_flops(batch, sequence, heads, head_size):
    """(forward, forward and backward), causal: two products over half of the scores forward, five backward."""
    forward = 2 * batch * heads * sequence**2 * head_size
    return forward, forward * 7 / 2


def expert_shapes(quick=False):
    """(model, experts, rows of each, inner, columns) of the two products of an expert; rows are equal, as with padding."""
    for model, experts, chosen, hidden, expert_hidden in EXPERTS[: 1 if quick else None]:
        rows = TOKENS * chosen // experts
        if quick:
            rows, hidden, expert_hidden = 8, 16, 32
        yield model, experts, rows, hidden, expert_hidden
        yield model, experts, rows, expert_hidden, hidden


def product_flops(experts, rows, inner, columns):
    return 2 * experts * rows * inner * columns


# The fewest bytes that each pass reads and writes. Numbers are bf16 (2 bytes), indices 8, scores and losses 4.
def permute_bytes(rows, hidden):
    """A row is read and written, at an index that is read."""
    return rows * (2 * 2 * hidden + 8)


def unpermute_bytes(tokens, chosen, hidden):
    """`chosen` rows of a token are read, with index and score, and their sum is written."""
    return tokens * (chosen * (2 * hidden + 8 + 4) + 2 * hidden)


def norm_bytes(tokens, hidden):
    """(forward, backward): input and output; input, and the gradients of both. Weights are few beside them."""
    return tokens * hidden * 2 * 2, tokens * hidden * 2 * 3


def cross_entropy_bytes(tokens, words):
    """(forward, backward): logits are read; read again, and their gradient is written."""
    return tokens * (words * 2 + 8 + 4), tokens * (words * 2 * 2 + 8)


def adam_bytes(parameters):
    """In fp32: weight, gradient and two moments are read; weight and moments are written."""
    return parameters * 4 * 7


class Table:
    """A CSV file of one fact. Rows are in the file when `add` returns; it has its name once it is whole."""

    def __init__(self, folder, name, columns, provenance):
        self.file, self.part = folder / f"{name}.csv", folder / f"{name}.csv.part"
        self.columns, self.provenance = (*columns, *PROVENANCE), [provenance[key] for key in PROVENANCE]
        self.out = open(self.part, "w", encoding="utf-8", newline="")  # noqa: SIM115  # held until the end
        csv.writer(self.out).writerow(self.columns)

    def add(self, *values):
        row = [f"{value:.6g}" if isinstance(value, float) else "" if value is None else value for value in values]
        if len(row) + len(PROVENANCE) != len(self.columns):
            raise ValueError(f"{self.file.name}: {len(row)} values, but {len(self.columns) - len(PROVENANCE)} columns")
        csv.writer(self.out).writerow([*row, *self.provenance])
        self.out.flush()

    def close(self, whole):
        self.out.close()
        if whole:
            self.part.replace(self.file)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
