# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What PyTorch's counters would show where our plan holds a planned peak.

Our arena is planned: memory that a stream frees serves any other, and gathered parameters are used where they arrive. PyTorch's allocator keeps a pool
for each stream, and FSDP has three: kernels, gathers, reductions. What one pool has free another cannot use, so that their peaks add up. Bytes follow
from FSDP2's buffers; nothing here was fitted but SLACK.
"""

# Of the pool of kernels: segments that freed tensors have cut so that none fits; the median over the rows that say both counters
# or were fitted on (Simulate.md).
SLACK = 0.04
BYTES = {"float32": 4, "bfloat16": 2}


def count_parameters(shape):
    """(of a block, of all outside of blocks, of the embedding)."""
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    block = shape.hidden * (q + 2 * kv) + q * shape.hidden + (2 if shape.is_gpt else 3) * shape.hidden * shape.ffn + 2 * shape.hidden
    embedding = shape.vocab * shape.hidden
    ends = embedding * (1 if shape.is_tied else 2) + shape.hidden + (shape.seq * shape.hidden if shape.is_gpt else 0)
    return block, ends, embedding


def predict(case, planned):
    """Bytes, as the row's counter counts them."""
    shape, system = case.shape, case.system
    shards = case.ranks // case.replicas
    block, ends, embedding = count_parameters(shape)
    blocks = block * shape.layers
    trains = not shape.lora
    held = planned
    # Our plan casts a shard once and keeps it for backward, FSDP casts for each gather.
    if shape.weights == "float32" and case.reshard:
        held -= 2 * (blocks - block) / shards
    # FSDP gathers its root whole, and one block ahead; our plan what is read next.
    if shards > 1 or system.layout == "fsdp2":
        held += 2 * (block + (0 if shape.is_tied else embedding))
    # The loss's operand is the caller's until backward has read its result; our plan reuses it.
    if system.holds_logits:
        held += shape.seq * shape.batch * shape.vocab * (2 if shape.narrow_loss else 6)
    if system.memory == "allocated":
        return held
    gathers = 2 * max(ends, 2 * block)
    reductions = BYTES[system.reduce] * (ends + block) if trains else 0
    # Shards of gradients are made by reductions; a plan with micro-batches counts them already.
    if trains and case.accumulation == 1:
        reductions += BYTES[shape.weights] * (blocks + ends) / shards
    return (1 + SLACK) * held + gathers + reductions
