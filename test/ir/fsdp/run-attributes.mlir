// RUN: fsdp-opt %s --verify-roundtrip | FileCheck %s

// What compile and run are told prints as it was written; what is as it is without
// being said does not print.

// CHECK:      fsdp.arithmetic = #fsdp.arithmetic<tf32 = true>
// CHECK-SAME: fsdp.buckets = #fsdp.buckets<policy = classes, classes = ["Block"], named = [#fsdp.bucket<"a=b", ["x|y"]>], reshard = all, reshard_ranks = 2, layout = auto, rules = [#fsdp.rule<buckets = ["a*"], reshard = 0, layout = flat>]>
// CHECK-SAME: fsdp.data = #fsdp.data<files = ["a.bin", "b*.bin"], format = llm_c, type = ui32, inputs = ["x"], targets = ["y"], shuffle = true, seed = 3, epochs = 2, drop_last = false, pad = [#fsdp.padding<input = "x", value = 3.000000e+00>, #fsdp.padding<input = "m">], length_pool = 128, length_group = 32, labels = "y", label_count = "n", shifts_labels = true>
// CHECK-SAME: fsdp.loss_scale = #fsdp.loss_scale<interval = 100, backoff = 2.500000e-01>
// CHECK-SAME: fsdp.on_nonfinite = #fsdp.on_nonfinite<ignore>
// CHECK-SAME: fsdp.optimizer = #fsdp.optimizer<kind = sgd, lr = 3.333300e-04, numbers = {nesterov = 1.000000e+00}, norm_order = 0x7FF0000000000000, groups = [#fsdp.param_group<params = ["*.bias"], numbers = {nesterov = 0.000000e+00, weight_decay = 0.000000e+00}>]>
// CHECK-SAME: fsdp.schedule = #fsdp.schedule<kind = cosine, warmup_ratio = 1.000000e-01, total_steps = 100>
// CHECK-SAME: fsdp.seed = 7 : i64
// CHECK-SAME: fsdp.shards = #fsdp.shards<world = 4, replicate = 2, dims = [#fsdp.dim_rule<params = ["*.weight"]>, #fsdp.dim_rule<params = ["b"], dim = 0>]>
// CHECK-SAME: fsdp.step = #fsdp.step<sync = all_reduce_last, divide_factor = 1.000000e+00>
// CHECK-SAME: fsdp.validation = #fsdp.validation<files = ["c.bin"], every = 10>
module attributes {
  fsdp.arithmetic = #fsdp.arithmetic<tf32 = true, fp16_accumulation = false>,
  fsdp.data = #fsdp.data<files = ["a.bin", "b*.bin"], format = llm_c, type = ui32, inputs = ["x"], targets = ["y"],
                         shuffle = true, seed = 3, epochs = 2, drop_last = false, length_group = 32, length_pool = 128,
                         pad = [#fsdp.padding<input = "x", value = 3.0>, #fsdp.padding<value = 0.0, input = "m">],
                         labels = "y", label_count = "n", shifts_labels = true>,
  fsdp.buckets = #fsdp.buckets<rules = [#fsdp.rule<buckets = ["a*"], layout = flat, reshard = 0>], layout = auto,
      classes = ["Block"], policy = classes, named = [#fsdp.bucket<"a=b", ["x|y"]>], reshard = all, reshard_ranks = 2>,
  fsdp.loss_scale = #fsdp.loss_scale<interval = 100, growth = 2.0, backoff = 0.25>,
  fsdp.on_nonfinite = #fsdp.on_nonfinite<ignore>,
  fsdp.schedule = #fsdp.schedule<kind = cosine, warmup_steps = 0, warmup_ratio = 0.1, total_steps = 100>,
  fsdp.seed = 7 : i64,
  fsdp.optimizer = #fsdp.optimizer<kind = sgd, lr = 3.3333e-4, numbers = {nesterov = 1.0}, norm_order = 0x7FF0000000000000,
      groups = [#fsdp.param_group<params = ["*.bias"], numbers = {nesterov = 0.0, weight_decay = 0.0}>]>,
  fsdp.shards = #fsdp.shards<world = 4, replicate = 2,
      dims = [#fsdp.dim_rule<params = ["*.weight"]>, #fsdp.dim_rule<params = ["b"], dim = 0>]>,
  fsdp.step = #fsdp.step<micro_batches = 1, sync = all_reduce_last, divide_factor = 1.0>,
  fsdp.validation = #fsdp.validation<files = ["c.bin"], every = 10>
} {}
