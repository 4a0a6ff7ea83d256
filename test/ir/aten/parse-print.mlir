// RUN: fsdp-opt %s --verify-roundtrip | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | fsdp-opt | FileCheck %s

// CHECK-LABEL: func.func @f
// CHECK-SAME: %[[A:.*]]: tensor<4x8xf32>, %[[I:.*]]: tensor<2xi64>
func.func @f(%a: tensor<4x8xf32>, %i: tensor<2xi64>, %m: tensor<4x8xi1>) {
  // Arguments that equal their defaults disappear.
  // CHECK: aten.add.Tensor(%[[A]], %[[A]]) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = aten.add.Tensor(%a, %a, alpha = 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // Numbers keep their kind: this is not the default 1.
  // CHECK: aten.add.Tensor(%[[A]], %[[A]], alpha = 1.000000e+00)
  %1 = aten.add.Tensor(%a, %a, alpha = 1.0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: aten.t(%[[A]]) {note = "x"} : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<1, 8>>
  %2 = aten.t(%a) {note = "x"} : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<1, 8>>
  // CHECK: aten.sum.dim_IntList(%[[A]], dim = [0], keepdim = true) :
  %3 = aten.sum.dim_IntList(%a, dim = [0], keepdim = true) : (tensor<4x8xf32>) -> tensor<1x8xf32>
  // CHECK: aten._to_copy(%[[A]], dtype = bf16) :
  %4 = aten._to_copy(%a, dtype = bf16) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  // CHECK: aten._to_copy(%[[A]], dtype = ui8) :
  %5 = aten._to_copy(%a, dtype = ui8) : (tensor<4x8xf32>) -> tensor<4x8xui8>
  // CHECK: aten.gelu(%[[A]], approximate = "tanh") :
  %6 = aten.gelu(%a, approximate = "tanh") : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: aten.clone(%[[A]], memory_format = "contiguous") :
  %7 = aten.clone(%a, memory_format = "contiguous") : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // Infinities print in hexadecimal with their type.
  // CHECK: aten.masked_fill.Scalar(%[[A]], %{{.*}}, value = 0xFFF0000000000000 : f64) :
  %8 = aten.masked_fill.Scalar(%a, %m, value = 0xFFF0000000000000 : f64) : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<4x8xf32>
  // Lists, of one and of none.
  // CHECK: aten.cat([%[[A]], %[[A]]]) :
  %9 = aten.cat([%a, %a], dim = 0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: aten.cat([%[[A]]], dim = 1) :
  %10 = aten.cat([%a], dim = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: aten._foreach_norm.Scalar([]) : () -> ()
  aten._foreach_norm.Scalar([], ord = 2) : () -> ()
  // Holes and absent tensors.
  // CHECK: aten.index.Tensor(%[[A]], [none, %[[I]]]) :
  %11 = aten.index.Tensor(%a, [none, %i]) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  // CHECK: aten.native_layer_norm(%[[A]], none, %[[A]], normalized_shape = [8], eps = 1.000000e-05) :
  %12:3 = aten.native_layer_norm(%a, none, %a, normalized_shape = [8], eps = 1.0e-05) : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, none, none)
  // Absent tensors at the end disappear, ints become the floats they stand for.
  // CHECK: aten.native_layer_norm(%[[A]], normalized_shape = [8], eps = 1.000000e+00) :
  %13:3 = aten.native_layer_norm(%a, none, none, normalized_shape = [8], eps = 1) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  // CHECK: aten.split.Tensor(%[[A]], split_size = 2) : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  %14:2 = aten.split.Tensor(%a, split_size = 2) : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
  // A number to the end.
  // CHECK: aten.slice.Tensor(%[[A]], dim = 1, start = 2) :
  %15 = aten.slice.Tensor(%a, dim = 1, start = 2) : (tensor<4x8xf32>) -> tensor<4x6xf32, #aten.strides<8, 1>>
  // Complex numbers, both parts in f64.
  // CHECK: aten.mul.Scalar(%{{.*}}, other = dense<(0.000000e+00,1.000000e-01)> : tensor<complex<f64>>) :
  %16 = aten.zeros(size = [2], dtype = complex<f32>) : () -> tensor<2xcomplex<f32>>
  %17 = aten.mul.Scalar(%16, other = dense<(0.0, 0.1)> : tensor<complex<f64>>) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}
