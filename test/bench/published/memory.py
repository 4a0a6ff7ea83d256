# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What PyTorch's counters would show of the work that a plan does.

Our arena is planned: memory that a stream frees serves any other, and gathered parameters are used where they arrive. PyTorch's allocator keeps a pool
for each stream, and FSDP has three: kernels, gathers, reductions. What one pool has free another cannot use, so that their peaks add up. The pool of
kernels is what the plan's report says of states and activations; the others follow from FSDP's buffers. Nothing here was fitted but SLACK.
"""

# Of the pool of kernels: segments that freed tensors have cut so that none fits.
SLACK = 0.04
BYTES = {"float32": 4, "bfloat16": 2}


def count_parameters(shape):
    """(of a block, of the embedding, of all outside of blocks)."""
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    block = shape.hidden * (q + 2 * kv) + q * shape.hidden + (2 if shape.is_gpt else 3) * shape.hidden * shape.ffn + 2 * shape.hidden
    embedding = shape.vocab * shape.hidden
    return block, embedding, embedding * (1 if shape.is_tied else 2) + (shape.seq * shape.hidden if shape.is_gpt else 0)


def kernels(case, prediction):
    """Bytes of the pool of kernels: states, activations, gathered parameters as they are used."""
    shape, system = case.shape, case.system
    shards = case.ranks // case.replicas
    block, embedding, ends = count_parameters(shape)
    tokens = shape.seq * shape.batch
    phases = prediction["phases"]
    logits = tokens * shape.vocab * (2 if shape.narrow_loss else 4)
    # Of the forward, the loss has its operand and its result; backward adds what it makes of them, unless that is one kernel. A loss in chunks of
    # the vocabulary holds less than ours in chunks of the rows, and less than a block's backward.
    most = 0 if case.chunks_loss else phases["forward"]["activations"] + (0 if shape.narrow_loss else logits)
    # Where our reductions have the most, FSDP's have it in a pool of their own.
    if phases["backward"]["op"] not in ("aten._chunk_cat", "fsdp.pack"):
        most = max(most, phases["backward"]["activations"])
    held = prediction["states"] + most
    # Our plan casts a shard once and keeps it for backward; FSDP casts for each gather.
    if shape.weights == "float32" and case.reshard and shards > 1:
        held -= 2 * block * (shape.layers - 1) / shards
    # A block that is gathered ahead, and the root whole where the plan has what is read next.
    held += 2 * block / case.tensor + (2 * (ends - embedding) if system.gathers_root_whole else 0)
    # Eager checkpointing keeps the result of each saved product, whether it is read or not: that of the MLP's last is not.
    if shape.halves_products and not case.compiled:
        held += 2 * tokens * shape.hidden * shape.layers
    # What the loss reads, where the caller holds it until backward is done.
    if system.holds_logits:
        held += tokens * shape.vocab * (2 if shape.narrow_loss else 6)
    return held


def predict(case, prediction):
    """Bytes, as the row's counter counts them."""
    shape, system = case.shape, case.system
    shards = case.ranks // case.replicas
    block, embedding, ends = count_parameters(shape)
    root = ends if system.gathers_root_whole else embedding
    # States have the gradients of micro-batches, in the parameters' type; FSDP adds them up in that in which it reduces.
    width = BYTES[system.reduce] - BYTES[shape.weights] if case.accumulation > 1 else BYTES[shape.weights]
    gradients = 0 if shape.lora else width * (block * shape.layers + ends) / shards
    if system.memory == "allocated":
        return kernels(case, prediction) + (gradients if case.accumulation > 1 else 0)
    gathers = 2 * max(root, 2 * block / case.tensor)
    reductions = 0 if shape.lora else BYTES[system.reduce] * (root + block / case.tensor)
    return (1 + (SLACK if system.cuts_segments else 0)) * kernels(case, prediction) + gradients + gathers + reductions
