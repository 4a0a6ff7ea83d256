// RUN: fsdp-opt %s --verify-roundtrip | FileCheck %s

// What the run is told prints as it was written; what is as it is without being
// said does not print.

// CHECK:      fsdp.arithmetic = #fsdp.arithmetic<tf32 = true>
// CHECK-SAME: fsdp.data = #fsdp.data<files = ["a.bin", "b*.bin"], format = llm_c, type = ui32, inputs = ["x"], targets = ["y"], shuffle = true, seed = 3, epochs = 2, drop_last = false>
// CHECK-SAME: fsdp.on_nonfinite = #fsdp.on_nonfinite<ignore>
// CHECK-SAME: fsdp.schedule = #fsdp.schedule<kind = cosine, warmup_ratio = 1.000000e-01 : f64, total_steps = 100>
// CHECK-SAME: fsdp.seed = 7 : i64
// CHECK-SAME: fsdp.training = #fsdp.training<lr = 1.000000e-03 : f64, norm_order = 0x7FF0000000000000 : f64>
// CHECK-SAME: fsdp.validation = #fsdp.validation<files = ["c.bin"], every = 10>
module attributes {
  fsdp.arithmetic = #fsdp.arithmetic<tf32 = true, fp16_accumulation = false>,
  fsdp.data = #fsdp.data<files = ["a.bin", "b*.bin"], format = llm_c, type = ui32, inputs = ["x"], targets = ["y"],
                         shuffle = true, seed = 3, epochs = 2, drop_last = false>,
  fsdp.on_nonfinite = #fsdp.on_nonfinite<ignore>,
  fsdp.schedule = #fsdp.schedule<kind = cosine, warmup_steps = 0, warmup_ratio = 0.1, total_steps = 100>,
  fsdp.seed = 7 : i64,
  fsdp.training = #fsdp.training<lr = 1.0e-3, norm_order = 0x7FF0000000000000 : f64>,
  fsdp.validation = #fsdp.validation<files = ["c.bin"], every = 10>
} {}
