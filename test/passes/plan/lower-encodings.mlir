// RUN: fsdp-opt %s --fsdp-lower-encodings -o - | FileCheck %s

// The inverse of a scale is computed once, where the scale is.

// CHECK-LABEL: @gradient
// CHECK-SAME:    (%[[G:.+]]: tensor<8x2xbf16>, %[[T:.+]]: tensor<2x2xf32>)
// CHECK-NEXT:  %[[M:.+]] = aten.linalg_vector_norm(%[[G]], ord = 0x7FF0000000000000 : f64, dtype = f32) : (tensor<8x2xbf16>) -> tensor<f32>
// CHECK-NEXT:  %[[A:.+]] = aten.clamp_min(%[[M]], min = 5.000000e-01)
// CHECK-NEXT:  %[[L:.+]] = fsdp.constant dense<4.480000e+02> : tensor<f32>
// CHECK-NEXT:  %[[D:.+]] = aten.div.Tensor(%[[L]], %[[A]])
// CHECK-NEXT:  %[[E:.+]] = aten.log2(%[[D]])
// CHECK-NEXT:  %[[F:.+]] = aten.floor(%[[E]])
// CHECK-NEXT:  %[[S:.+]] = aten.exp2(%[[F]])
// CHECK-NEXT:  %[[I:.+]] = aten.reciprocal(%[[S]])
// CHECK-NEXT:  %[[W:.+]] = aten.view(%[[S]], size = [1]) : (tensor<f32>) -> tensor<1xf32>
// CHECK-NEXT:  %[[P:.+]] = aten.mul.Tensor(%[[G]], %[[W]]) : (tensor<8x2xbf16>, tensor<1xf32>) -> tensor<8x2xf32>
// CHECK-NEXT:  %[[C:.+]] = aten._to_copy(%[[P]], dtype = f8E4M3FN) : (tensor<8x2xf32>) -> tensor<8x2xf8E4M3FN>
// CHECK-NEXT:  %[[X:.+]] = aten.mul.Tensor(%[[T]], %[[I]]) : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
// CHECK-NEXT:  %[[Y:.+]] = aten.mul.Tensor(%[[X]], %[[I]])
// CHECK-NEXT:  return %[[C]], %[[Y]]
func.func @gradient(%g: tensor<8x2xbf16>, %t: tensor<2x2xf32>) -> (tensor<8x2xf8E4M3FN>, tensor<2x2xf32>) {
  %m = fsdp.amax %g : tensor<8x2xbf16> -> tensor<f32>
  %s = fsdp.scale %m to f8E4M3FN least 0.5 power_of_two : tensor<f32>
  %c = fsdp.encode %g by %s : tensor<8x2xbf16>, tensor<f32> -> tensor<8x2xf8E4M3FN>
  %d = fsdp.decode %t by %s : tensor<2x2xf32>, tensor<f32>
  %e = fsdp.decode %d by %s : tensor<2x2xf32>, tensor<f32>
  return %c, %e : tensor<8x2xf8E4M3FN>, tensor<2x2xf32>
}

// By a scale that was given.

// CHECK-LABEL: @given
// CHECK-SAME:    (%[[T:.+]]: tensor<2xf32>, %[[S:.+]]: tensor<f32>)
// CHECK-NEXT:  %[[I:.+]] = aten.reciprocal(%[[S]])
// CHECK-NEXT:  %[[D:.+]] = aten.mul.Tensor(%[[T]], %[[I]])
// CHECK-NEXT:  return %[[D]]
func.func @given(%t: tensor<2xf32>, %s: tensor<f32>) -> tensor<2xf32> {
  %d = fsdp.decode %t by %s : tensor<2xf32>, tensor<f32>
  return %d : tensor<2xf32>
}

// Of each row; the other type, as the division says.

// CHECK-LABEL: @rows
// CHECK-NEXT:  aten.linalg_vector_norm(%{{.+}}, ord = 0x7FF0000000000000 : f64, dim = [1], keepdim = true) : (tensor<4x2xf32>) -> tensor<4x1xf32>
// CHECK:       fsdp.constant dense<5.734400e+04>
// CHECK-NEXT:  %[[S:.+]] = aten.div.Tensor
// CHECK-NEXT:  aten.mul.Tensor(%{{.+}}, %[[S]]) : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
// CHECK-NOT:   aten.reciprocal
func.func @rows(%g: tensor<4x2xf32>) -> tensor<4x2xf8E5M2> {
  %m = fsdp.amax %g along 1 : tensor<4x2xf32> -> tensor<4x1xf32>
  %s = fsdp.scale %m to f8E5M2 least 0.5 : tensor<4x1xf32>
  %c = fsdp.encode %g by %s : tensor<4x2xf32>, tensor<4x1xf32> -> tensor<4x2xf8E5M2>
  return %c : tensor<4x2xf8E5M2>
}
