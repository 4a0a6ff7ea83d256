# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels by the kinds that simulate/ predicts, from their names."""
import re

# The first that matches counts. Names are mangled, or those of cuBLAS, cuDNN and Triton.
KINDS = (
    ("elementwise", r"^kernel(_aligned)?$|^sum_\d+$"),  # of our own
    ("transfer", r"combineI|nccl|AllGather|ReduceScatter|AllReduce"),
    ("attention", r"sdpa|flash_|fmha|attention|_attn"),
    ("convolution", r"conv(?!ert)|wgrad|dgrad|implicit_|winograd|nchwToNhwc|nhwcToNchw"),
    ("optimizer", r"FusedAdam|FusedSgd|fused_adam|fused_sgd|multi_tensor_apply"),
    ("matmul", r"nvjet|gemm|gemv|cutlass|cublas|splitK|triton_tem"),
    ("copy", r"direct_copy_kernel|bfloat16_copy|float16_copy|CatArray|chunk_cat|split_with_sizes|triton_poi_fused__?to_copy(_t)?_\d"),
    ("random", r"philox|Philox|distribution|dropout|draw"),
    ("sort", r"[Ss]ort|radix|Radix|topk|TopK|scan|Scan"),
    ("indexing", r"index|embedding|gather|scatter"),
    ("reduction", r"reduce|[Nn]orm|[Ss]oft[Mm]ax|nll_loss|triton_(red|per)"),
    ("elementwise", r"elementwise|triton_poi|fill|where"),
)


def kind_of(name, activity="kernel"):
    """`activity` is gaps.cpp's word: kernel, copy or fill."""
    if activity != "kernel":
        return {"copy": "copy", "fill": "elementwise"}[activity]
    return next((kind for kind, pattern in KINDS if re.search(pattern, name)), "other")
