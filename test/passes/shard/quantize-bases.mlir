// RUN: fsdp-opt %s --fsdp-quantize-bases --split-input-file | FileCheck %s

// A frozen matrix becomes bytes; what is trained, skipped, an embedding or no
// matrix stays, and so does the first value.

// CHECK:      module attributes {fsdp.casts = [
// CHECK-SAME:   {cause = "quantize", count = 1 : i64, from = bf16, name = "nf4", to = ui8}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["*"], skip = ["head"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.module "embed" class "Embedding"
  fsdp.module "net" class "Net"
  // CHECK:      fsdp.state frozen @fc.weight : tensor<17x36xui8> source <"data/weights/w0" at 64 : 2112>
  // CHECK-SAME:   quantized <nf4 of tensor<32x33xbf16>>
  fsdp.state frozen @fc.weight : tensor<32x33xbf16> source <"data/weights/w0" at 64 : 2112>
  // CHECK:      fsdp.state frozen @fc.bias : tensor<32xbf16>{{$}}
  fsdp.state frozen @fc.bias : tensor<32xbf16>
  // CHECK:      fsdp.state frozen @embed.weight : tensor<9x33xbf16>{{$}}
  fsdp.state frozen @embed.weight : tensor<9x33xbf16>
  // CHECK:      fsdp.state frozen @net.position : tensor<9x33xbf16>{{$}}
  fsdp.state frozen @net.position : tensor<9x33xbf16>
  // CHECK:      fsdp.state frozen @head.weight : tensor<32x33xbf16>{{$}}
  fsdp.state frozen @head.weight : tensor<32x33xbf16>
  // CHECK:      fsdp.state parameter @lora.weight : tensor<4x33xbf16>{{$}}
  fsdp.state parameter @lora.weight : tensor<4x33xbf16>
  // CHECK-LABEL: func.func @"infer/step"
  // CHECK-SAME:    (%[[B:[^:]+]]: tensor<17x36xui8> {fsdp.state = @fc.weight}, %[[H:[^:]+]]: tensor<32x33xbf16> {fsdp.state = @head.weight}
  func.func @"infer/step"(%w: tensor<32x33xbf16> {fsdp.state = @fc.weight}, %h: tensor<32x33xbf16> {fsdp.state = @head.weight}, %x: tensor<8x33xbf16> {fsdp.input = "x"})
      -> (tensor<8x32xbf16> {fsdp.output = "y"}, tensor<8x32xbf16> {fsdp.output = "z"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    // CHECK:      %[[HT:.+]] = aten.t(%[[H]])
    // CHECK-NEXT: aten.mm(%{{.+}}, %[[HT]])
    // CHECK-NEXT: %[[W:.+]] = fsdp.dequantize %[[B]] nf4 : tensor<17x36xui8> -> tensor<32x33xbf16>
    // CHECK-NEXT: %[[T:.+]] = aten.t(%[[W]])
    // CHECK-NEXT: aten.mm(%{{.+}}, %[[T]])
    %ht = aten.t(%h) : (tensor<32x33xbf16>) -> tensor<33x32xbf16, #aten.strides<1, 33>>
    %z = aten.mm(%x, %ht) : (tensor<8x33xbf16>, tensor<33x32xbf16, #aten.strides<1, 33>>) -> tensor<8x32xbf16>
    %t = aten.t(%w) : (tensor<32x33xbf16>) -> tensor<33x32xbf16, #aten.strides<1, 33>>
    %y = aten.mm(%x, %t) : (tensor<8x33xbf16>, tensor<33x32xbf16, #aten.strides<1, 33>>) -> tensor<8x32xbf16>
    return %y, %z : tensor<8x32xbf16>, tensor<8x32xbf16>
  }
}

// -----

// What is read in another type is made in that where it rounds alike, from f32;
// a cast from bf16 is of what was rounded.

// CHECK:      count = 1 : i64, from = bf16, name = "int8"
// CHECK-SAME: count = 1 : i64, from = f32, name = "int8"
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["*"], kind = int8>} {
  // CHECK:      fsdp.state frozen @a.weight : tensor<2x68xui8> quantized <int8 of tensor<8x16xf32>>
  fsdp.state frozen @a.weight : tensor<8x16xf32>
  // CHECK:      fsdp.state frozen @b.weight : tensor<2x68xui8> quantized <int8 of tensor<8x16xbf16>>
  fsdp.state frozen @b.weight : tensor<8x16xbf16>
  // CHECK-LABEL: func.func @"infer/step"
  func.func @"infer/step"(%a: tensor<8x16xf32> {fsdp.state = @a.weight}, %b: tensor<8x16xbf16> {fsdp.state = @b.weight})
      -> (tensor<8x16xbf16> {fsdp.output = "w"}, tensor<8x16xf32> {fsdp.output = "x"}, tensor<8x16xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    // CHECK-NEXT: %[[H:.+]] = fsdp.dequantize %{{.+}} int8 : tensor<2x68xui8> -> tensor<8x16xbf16>
    // CHECK-NEXT: %[[N:.+]] = aten.neg(%[[H]])
    // CHECK-NEXT: %[[F:.+]] = fsdp.dequantize %{{.+}} int8 : tensor<2x68xui8> -> tensor<8x16xf32>
    // CHECK-NEXT: %[[M:.+]] = aten.neg(%[[F]])
    // CHECK-NEXT: %[[B:.+]] = fsdp.dequantize %{{.+}} int8 : tensor<2x68xui8> -> tensor<8x16xbf16>
    // CHECK-NEXT: %[[C:.+]] = aten._to_copy(%[[B]], dtype = f32)
    // CHECK-NEXT: %[[O:.+]] = aten.neg(%[[C]])
    // CHECK-NEXT: return %[[N]], %[[M]], %[[O]]
    %h = aten._to_copy(%a, dtype = bf16) : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %n = aten.neg(%h) : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    %m = aten.neg(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %c = aten._to_copy(%b, dtype = f32) : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    %o = aten.neg(%c) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %n, %m, %o : tensor<8x16xbf16>, tensor<8x16xf32>, tensor<8x16xf32>
  }
}

// -----

// A matrix of another module is named itself.

// CHECK:      fsdp.state frozen @net.position : tensor<5x36xui8> quantized <nf4 of tensor<9x33xbf16>>
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["*.position"]>} {
  fsdp.module "net" class "Net"
  fsdp.state frozen @net.position : tensor<9x33xbf16>
}

// -----

// Blocks of another form.

// CHECK:      fsdp.state frozen @net.position : tensor<1x16648xui8>
// CHECK-SAME:   quantized <fp4 block_size = 128 double_quant = true of tensor<9x33xbf16>>
// CHECK:      fsdp.dequantize %{{.+}} fp4 {block_size = 128 : i64, double_quant} : tensor<1x16648xui8> -> tensor<9x33xbf16>
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["*.position"], kind = fp4, block_size = 128, double_quant = true>} {
  fsdp.module "net" class "Net"
  fsdp.state frozen @net.position : tensor<9x33xbf16>
  func.func @"infer/step"(%a: tensor<9x33xbf16> {fsdp.state = @net.position})
      -> (tensor<9x33xbf16> {fsdp.output = "w"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %n = aten.neg(%a) : (tensor<9x33xbf16>) -> tensor<9x33xbf16>
    return %n : tensor<9x33xbf16>
  }
}

// -----

// Without the setting nothing changes.

// CHECK-LABEL: module {
// CHECK-NEXT:    fsdp.state frozen @fc.weight : tensor<32x33xbf16>
module {
  fsdp.state frozen @fc.weight : tensor<32x33xbf16>
}
