// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

func.func @unknown(%a: tensor<2xf32>) {
  // expected-error @+1 {{aten.no_such_op}}
  %0 = "aten.no_such_op"(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @known(%a: tensor<2xf32>) {
  return
}
