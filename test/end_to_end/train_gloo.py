# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training on ranks that are processes, over gloo, equals PyTorch's."""
import zoo
from harness import parse_arguments, run_cases, train_case


def main():
    arguments = parse_arguments()
    sgd = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
    run_cases({
        "mlp world=2": train_case(arguments.bin, zoo.mlp, 2, "torchrun", reshard_after_forward=True),
        "tiny world=4": train_case(arguments.bin, zoo.tiny, 4, "gloo", optimizer=sgd),
        "gpt world=3": train_case(arguments.bin, zoo.gpt, 3, "torchrun", reshard_after_forward=False, max_grad_norm=0.1),
        "convnet world=2": train_case(arguments.bin, zoo.convnet, 2, "gloo", optimizer=sgd),
    }, arguments.only)


main()
