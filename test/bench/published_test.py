# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What predict.py makes of published rows, without a compiler."""
import pathlib
import sys
import unittest

import yaml

import predict
from published import plans, rows

ROWS = pathlib.Path(__file__).with_name("rows.yaml")


def make_row(**changes):
    row = yaml.safe_load(ROWS.read_text())["rows"][0]
    row.update(changes)
    row["parallelism"] = {**row["parallelism"], "kind": "FSDP1 FULL_SHARD", **changes.get("parallelism", {})}
    return row


class Pairs(unittest.TestCase):
    def test_differ_in_one_setting_alone(self):
        a = make_row(seq_len=2048)
        self.assertEqual(predict.differ_in_one(a, make_row(seq_len=4096)), "seq_len")
        self.assertIsNone(predict.differ_in_one(a, make_row(seq_len=4096, gpus=16)))

    def test_do_not_differ_in_kernels_or_sharding(self):
        a = make_row(gpu="H100-80GB", attention="FA3")
        self.assertIsNone(predict.differ_in_one(a, make_row(gpu="A6000", attention="FA2")))
        self.assertEqual(predict.differ_in_one(a, make_row(gpu="A6000", attention="FA3")), "gpu")
        self.assertIsNone(predict.differ_in_one(make_row(), make_row(gpus=64, parallelism={"kind": "FSDP1 SHARD_GRAD_OP"})))

    def test_compare_seconds_for_a_token_and_memory_as_it_is(self):
        table = [make_row(id="short", seq_len=2048), make_row(id="long", seq_len=4096)]
        found = {"short": {"seconds": 1.0, "predicted_seconds": 1.1, "gib": 10.0, "predicted_gib": 11.0},
                 "long": {"seconds": 1.6, "predicted_seconds": 1.54, "gib": 20.0, "predicted_gib": 27.5}}
        (setting, first, second, published, predicted), = predict.compare_pairs(table, found)
        self.assertEqual((setting, first, second), ("seq_len", "long", "short"))
        self.assertAlmostEqual(published, 0.8)
        self.assertAlmostEqual(predicted, 0.7)
        (_, first, second, published, predicted), = predict.compare_pairs(table, found, "gib", "predicted_gib")
        self.assertEqual((first, second), ("short", "long"))
        self.assertAlmostEqual(published, 0.5)
        self.assertAlmostEqual(predicted, 0.4)


class Systems(unittest.TestCase):
    DEEPCOMPILE = {"source": "DeepCompile chart", "gpu": "H100-80GB", "gpus": 32}

    def make_cluster(self, **changes):
        return plans.make_cluster(rows.read(make_row(**changes)))

    def test_gather_a_third_time_where_deepcompile_ran_fsdp_alone(self):
        plain = self.make_cluster(**self.DEEPCOMPILE, system="ZeRO3+compile")["network"]["gather"]
        self.assertAlmostEqual(self.make_cluster(**self.DEEPCOMPILE, system="FSDP+compile")["network"]["gather"], plain / 1.5)
        for source in ("torchtitan PR", "YaFSDP README"):
            self.assertAlmostEqual(self.make_cluster(source=source, gpu="H100-80GB", system="FSDP1")["network"]["gather"], plain)

    def test_read_masks_in_deepcompiles_attention(self):
        shares = [self.make_cluster(**{"gpu": "H100-80GB", **changes})["device"]["attention_forward"]
                  for changes in (self.DEEPCOMPILE, {"source": "torchtitan PR"})]
        self.assertAlmostEqual(shares[0], shares[1] / 4)

    def test_end_graphs_at_adapters_of_prime_rl(self):
        changes = {"gpu": "H100-80GB", "compile": True, "parallelism": {"kind": "FSDP2"}}
        lora = {"rank": 16, "adapters_resident": 4}
        elementwise = [self.make_cluster(**changes, **more)["device"]["elementwise"]
                       for more in ({"source": "prime-rl"}, {"source": "prime-rl", "lora": lora}, {"source": "NeMo Automodel", "lora": lora})]
        self.assertEqual(elementwise, [plans.FUSED, 1, plans.FUSED])


if __name__ == "__main__":
    sys.exit(unittest.main())
