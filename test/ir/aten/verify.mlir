// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

// AT-1
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{'aten.mm' op lacks the tensor 'mat2'}}
  %0 = aten.mm(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-1
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{'aten.relu' op has a list of 2 for 'self', which is one tensor}}
  %0 = "aten.relu"(%a, %a) <{segments = array<i32: 2>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-1
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{'aten.relu' op expects 1 operands by its schema, found 2}}
  %0 = "aten.relu"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-1
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects 1 tensor arguments by its schema, found 2}}
  %0 = "aten.relu"(%a) <{segments = array<i32: 1, -1>}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-1
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects 'segments' to be array<i32>, found 1 : i64}}
  %0 = "aten.relu"(%a) <{segments = 1 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-1
func.func @f(%a: tensor<4xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{expects 'present' to have one entry for each of 2 list members, found 3}}
  %0 = "aten.index.Tensor"(%a, %i) <{segments = array<i32: 1, 2>, present = array<i1: false, true, false>}> : (tensor<4xf32>, tensor<2xi64>) -> tensor<4xf32>
  return
}

// -----

// AT-2
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{'aten.sum.dim_IntList' op has an argument 'keepdims' that its schema does not know: (Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor}}
  %0 = aten.sum.dim_IntList(%a, dim = [0], keepdims = true) : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

// AT-2
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects 'dim' to be of kind 'int list', found 0 : i64}}
  %0 = aten.sum.dim_IntList(%a, dim = 0) : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

// AT-2
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects 'memory_format' to be of kind 'memory format', found "rows"}}
  %0 = aten.clone(%a, memory_format = "rows") : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-2
func.func @f(%a: tensor<2xcomplex<f32>>) {
  // expected-error @+1 {{expects 'other' to be of kind 'number', found dense<(0.000000e+00,1.000000e+00)> : tensor<complex<f32>>}}
  %0 = aten.mul.Scalar(%a, other = dense<(0.0, 1.0)> : tensor<complex<f32>>) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// AT-2
func.func @f(%a: tensor<2xcomplex<f32>>) {
  // expected-error @+1 {{expects 'other' to be of kind 'number', found dense<(0.000000e+00,1.000000e+00)> : tensor<2xcomplex<f64>>}}
  %0 = aten.mul.Scalar(%a, other = dense<(0.0, 1.0)> : tensor<2xcomplex<f64>>) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// AT-2
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{has an attribute for 'other', which is a tensor}}
  %0 = aten.add.Tensor(%a, %a, other = 1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-3
func.func @f() {
  // expected-error @+1 {{has an argument 'device' that the runtime decides; leave it out}}
  %0 = aten.zeros(size = [4], device = "cuda:1") : () -> tensor<4xf32>
  return
}

// -----

// AT-4: text drops defaults by itself, other ways of building an op must too.
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{has an argument 'alpha' that equals its default; leave it out}}
  %0 = "aten.add.Tensor"(%a, %a) <{alpha = 1 : i64}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-5
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{lacks the int 'dim0' of its schema}}
  %0 = aten.transpose.int(%a, dim1 = 0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-6
func.func @f(%a: tensor<?xf32>) {
  // expected-error @+1 {{expects operand 0 to be a tensor of static shape, found 'tensor<?xf32>'}}
  %0 = aten.relu(%a) : (tensor<?xf32>) -> tensor<4xf32>
  return
}

// -----

// AT-6
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects result 0 to be a tensor of static shape, found 'i64'}}
  %0 = aten.relu(%a) : (tensor<4xf32>) -> i64
  return
}

// -----

// AT-7
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{expects 1 results by its schema, found 2}}
  %0:2 = aten.relu(%a) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// SD-1
// expected-error @+1 {{expected one stride for each of 2 dims, found 1}}
func.func private @f(tensor<4x8xf32, #aten.strides<1>>)

// -----

// SD-2
// expected-error @+1 {{expected strides of a tensor that is not contiguous, found #aten.strides<8, 1>; leave them out}}
func.func private @f(tensor<4x8xf32, #aten.strides<8, 1>>)

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{expected a tensor list for 'tensors', found a single tensor}}
  %0 = aten.cat(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{expected at most 1 tensors by the schema (Tensor self) -> Tensor}}
  %0 = aten.relu(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{expected 'alpha' once}}
  %0 = aten.add.Tensor(%a, %a, alpha = 2, alpha = 3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{unregistered operation 'aten.nosuch' found in dialect ('aten')}}
  %0 = "aten.nosuch"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
