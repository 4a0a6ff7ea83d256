// RUN: fsdp-opt %s --fsdp-dequantize-at-readers | FileCheck %s

// Each product has numbers of its own, with the views and casts that lead to
// them; one that reads two views of them has one tensor for both.

module {
  fsdp.state frozen @fc.weight : tensor<4x36xui8> quantized <nf4 of tensor<16x16xbf16>>
  // CHECK-LABEL: func.func @"infer/step"
  // CHECK-SAME:    (%[[B:[^:]+]]: tensor<4x36xui8>
  func.func @"infer/step"(%b: tensor<4x36xui8> {fsdp.state = @fc.weight}, %x: tensor<16x16xbf16> {fsdp.input = "x"})
      -> (tensor<16x16xbf16> {fsdp.output = "y"}, tensor<16x16xf32> {fsdp.output = "z"}, tensor<16x16xbf16> {fsdp.output = "s"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    // CHECK-NEXT: %[[N:.+]] = aten.neg(%[[X:.+]])
    // CHECK-NEXT: %[[W1:.+]] = fsdp.dequantize %[[B]] nf4
    // CHECK-NEXT: %[[T1:.+]] = aten.t(%[[W1]])
    // CHECK-NEXT: %[[Y:.+]] = aten.mm(%[[N]], %[[T1]])
    %w = fsdp.dequantize %b nf4 : tensor<4x36xui8> -> tensor<16x16xbf16>
    %t = aten.t(%w) : (tensor<16x16xbf16>) -> tensor<16x16xbf16, #aten.strides<1, 16>>
    %n = aten.neg(%x) : (tensor<16x16xbf16>) -> tensor<16x16xbf16>
    %y = aten.mm(%n, %t) : (tensor<16x16xbf16>, tensor<16x16xbf16, #aten.strides<1, 16>>) -> tensor<16x16xbf16>
    // CHECK-NEXT: %[[W2:.+]] = fsdp.dequantize %[[B]] nf4
    // CHECK-NEXT: %[[C2:.+]] = aten._to_copy(%[[W2]], dtype = f32)
    // CHECK-NEXT: %[[Z:.+]] = aten.neg(%[[C2]])
    %c = aten._to_copy(%w, dtype = f32) : (tensor<16x16xbf16>) -> tensor<16x16xf32>
    %z = aten.neg(%c) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    // CHECK-NEXT: %[[W3:.+]] = fsdp.dequantize %[[B]] nf4
    // CHECK-NEXT: %[[T3:.+]] = aten.t(%[[W3]])
    // CHECK-NEXT: %[[S:.+]] = aten.mm(%[[W3]], %[[T3]])
    // CHECK-NEXT: return %[[Y]], %[[Z]], %[[S]]
    %s = aten.mm(%w, %t) : (tensor<16x16xbf16>, tensor<16x16xbf16, #aten.strides<1, 16>>) -> tensor<16x16xbf16>
    return %y, %z, %s : tensor<16x16xbf16>, tensor<16x16xf32>, tensor<16x16xbf16>
  }
}
