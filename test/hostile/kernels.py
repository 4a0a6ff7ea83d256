#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls kernels with operands that do not fit, and says which of them crash without a rule.

    kernels.py [--every K] [--only REGEX] [--samples N]

Every operator that artifacts may call (AllowedOperators.inc), as far as PyTorch's
operator database and the calls below reach it, forward and backward, is called
again and again with one operand changed: another shape, type, layout or range of
values, other integers. Operands end where a page begins that cannot be touched.
Calls are made in processes of their own; one that ends by a signal is a crash. An
operator that crashes and has no rule in plan/ is an error.
"""
import argparse
import collections
import ctypes
import mmap
import os
import pathlib
import re
import resource
import signal
import sys
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

torch.set_num_threads(1)
PLAN = pathlib.Path(__file__).resolve().parents[2] / "plan"
PAGE = mmap.PAGESIZE
MOST_MEMORY = 5 << 30
A, F, r = torch.ops.aten, torch.nn.functional, torch.randn
libc = ctypes.CDLL(None)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
kept = []           # memory of the operands


def name_of(func):
    schema = func._schema
    return schema.name + (f".{schema.overload_name}" if schema.overload_name else "")


def find_allowed():
    rows = re.findall(r'FSDP_OPERATOR\("([^"]*)", "([^"]*)"\)', (PLAN / "AllowedOperators.inc").read_text())
    return {name + (f".{overload}" if overload else "") for name, overload in rows}


def find_ruled():
    return {name for path in PLAN.glob("*Rules.cpp") for name in re.findall(r'\{"(aten::[^"]*)",', path.read_text())}


def guard(tensor):
    """The tensor in memory with pages around it that cannot be touched."""
    size = tensor.untyped_storage().nbytes()
    if size == 0:
        return tensor.clone()
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    at = begin + (pages + 1) * PAGE - size
    kept.append(memory)
    ctypes.memmove(at, tensor.untyped_storage().data_ptr(), size)
    for page in (begin, begin + (pages + 1) * PAGE):
        libc.mprotect(page, PAGE, 0)
    raw = torch.frombuffer((ctypes.c_char * size).from_address(at), dtype=torch.uint8)
    return torch.empty(0, dtype=tensor.dtype).set_(raw.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())


class Recorder(TorchDispatchMode):
    """Calls of allowed operators with operands of modest size."""

    def __init__(self, allowed, most):
        super().__init__()
        self.allowed, self.most, self.calls = allowed, most, collections.OrderedDict()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        leaves, spec = _pytree.tree_flatten((args, kwargs or {}))
        seen = self.calls.setdefault(name_of(func), [])
        fits = all(leaf.layout == torch.strided and leaf.numel() < 5000 for leaf in leaves if torch.is_tensor(leaf))
        if name_of(func) in self.allowed and fits and len(seen) < self.most:
            seen.append((func, [leaf.detach().clone() if torch.is_tensor(leaf) else leaf for leaf in leaves], spec))
        return func(*args, **(kwargs or {}))


def differentiate(out):
    out = [x for x in _pytree.tree_leaves(out) if torch.is_tensor(x) and x.requires_grad]
    if out:
        sum(x.abs().sum() for x in out).backward()


def record_database(recorder, samples):
    for info in op_db:
        for dtype in (torch.float32, torch.int64):
            if dtype not in info.dtypes:
                continue
            gradients = dtype == torch.float32 and info.supports_autograd
            try:
                for _, sample in zip(range(samples), info.sample_inputs("cpu", dtype, requires_grad=gradients)):
                    with recorder:
                        out = info.op(sample.input, *sample.args, **sample.kwargs)
                        if gradients:
                            differentiate(out)
            except Exception as error:
                print(f"{info.name}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)


def record_others(recorder):
    """What the database does not reach."""
    def g(function, *tensors):
        try:
            with recorder:
                differentiate(function(*[tensor.clone().requires_grad_() for tensor in tensors]))
        except Exception as error:
            print(f"a call below: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)

    def c(op, *args, **kwargs):
        # Some end by a signal with operands that fit, where a processor lacks instructions.
        if is_fatal(lambda: op(*args, **kwargs), 10):
            return print(f"{op}: ends the process", file=sys.stderr)
        try:
            with recorder:
                op(*args, **kwargs)
        except Exception as error:
            print(f"{op}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)

    g(lambda x:F.ctc_loss(x.log_softmax(2),torch.randint(1,5,(2,4)),torch.tensor([6,6]),torch.tensor([4,3])),r(6,2,5))
    g(lambda x:F.ctc_loss(x.log_softmax(2),torch.randint(1,5,(2,4)),[6,6],[4,3]),r(6,2,5))
    for m in ('reflect','replicate'):
        g(lambda x:F.pad(x,(1,2),mode=m),r(2,3,8)); g(lambda x:F.pad(x,(1,2,1,1),mode=m),r(2,3,8,8)); g(lambda x:F.pad(x,(1,2,1,1,2,1),mode=m),r(2,3,8,8,8))
    for m,k in (('nearest',1),('nearest-exact',1),('linear',1),('nearest',2),('nearest-exact',2),('bilinear',2),('bicubic',2),('nearest',3),('nearest-exact',3),('trilinear',3)):
        g(lambda x:F.interpolate(x,scale_factor=2,mode=m),r(1,2,*[4]*k)); g(lambda x:F.interpolate(x,size=[7]*k,mode=m),r(1,2,*[4]*k))
    for m in ('bilinear','bicubic'): g(lambda x:F.interpolate(x,size=[3,3],mode=m,antialias=True),r(1,2,5,5))
    g(lambda q,k,v:A._scaled_dot_product_flash_attention_for_cpu(q,k,v)[0],r(1,2,8,16),r(1,2,8,16),r(1,2,8,16))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        g(lambda q,k,v:F.scaled_dot_product_attention(q,k,v,is_causal=True),r(1,2,8,16),r(1,2,8,16),r(1,2,8,16))
        g(lambda q,k,v:F.scaled_dot_product_attention(q,k,v,attn_mask=torch.ones(8,8)),r(1,2,8,16),r(1,2,8,16),r(1,2,8,16))
    for mode in ('sum','mean','max'):
        g(lambda w:F.embedding_bag(torch.randint(0,5,(10,)),w,torch.tensor([0,4,7]),mode=mode),r(5,3))
        g(lambda w:F.embedding_bag(torch.randint(0,5,(10,)),w,torch.tensor([0,4,7,10]),mode=mode,include_last_offset=True,padding_idx=1),r(5,3))
    w=r(5,3);i=torch.randint(0,5,(10,));o=torch.tensor([0,4,7])
    for mode in (0,1,2):
        out=A._embedding_bag_forward_only(w,i,o,False,mode); c(A._embedding_bag_forward_only,w,i,o,False,mode)
        out=A._embedding_bag(w,i,o,False,mode)
        c(A._embedding_bag_dense_backward,r(3,3),i,out[1],out[2],out[3],5,False,mode,None)
        c(A._embedding_bag_backward,r(3,3),i,o,out[1],out[2],out[3],5,False,mode,False,None)
    c(A._embedding_bag_per_sample_weights_backward,r(3,3),w,i,o,A._embedding_bag(w,i,o,False,0)[1],0)
    g(lambda v,gg:A._weight_norm_interface(v,gg,0)[0],r(4,3),r(4,1)); g(lambda v,gg:A._weight_norm_interface(v,gg,1)[0],r(4,3),r(1,3))
    c(A._weight_norm_interface_backward,r(4,3),r(4,3),r(4,1),r(4,1),0)
    m=torch.zeros(2,2,4,4,dtype=torch.bool)
    c(A._masked_softmax,r(2,2,4,4),m,3,2);c(A._masked_softmax,r(2,2,4,4),torch.zeros(4,4,dtype=torch.bool),3,0);c(A._masked_softmax,r(2,2,4,4),torch.zeros(2,4,dtype=torch.bool),3,1)
    c(A._masked_softmax_backward,r(2,2,4,4),r(2,2,4,4),m,3)
    g(lambda x:torch.distributions.Dirichlet(x).rsample(),torch.rand(3,4)+.1); g(lambda x:torch.distributions.Gamma(x,torch.ones(3)).rsample(),torch.rand(3)+.1)
    c(A._dirichlet_grad,torch.rand(3,4),torch.rand(3,4),torch.rand(3,4)); c(A._standard_gamma_grad,torch.rand(3,4),torch.rand(3,4))
    c(A.slow_conv3d_forward,r(1,2,5,5,5),r(3,2,3,3,3),[3,3,3],r(3),[1,1,1],[0,0,0]); c(A._slow_conv2d_forward,r(1,2,5,5),r(3,2,3,3),[3,3],r(3),[1,1],[0,0])
    c(A._slow_conv2d_backward.output_mask,r(1,3,3,3),r(1,2,5,5),r(3,2,3,3),[3,3],[1,1],[0,0],[True]*3)
    c(A.slow_conv_dilated2d,r(1,2,7,7),r(3,2,3,3),[3,3],r(3),[1,1],[0,0],[2,2]); c(A.slow_conv_dilated3d,r(1,2,7,7,7),r(3,2,3,3,3),[3]*3,r(3),[1]*3,[0]*3,[2]*3)
    c(A.slow_conv_transpose2d,r(1,2,5,5),r(2,3,3,3),[3,3],r(3)); c(A.slow_conv_transpose3d,r(1,2,5,5,5),r(2,3,3,3,3),[3]*3,r(3))
    for d in (1,2,3):
        conv=getattr(F,f'conv{d}d'); g(conv,r(1,4,*[6]*d),r(4,2 if 0 else 4,*[3]*d),r(4)); g(lambda x,w:conv(x,w,None,2,1,2,2),r(1,4,*[6]*d),r(4,2,*[3]*d))
        ct=getattr(F,f'conv_transpose{d}d'); g(ct,r(1,4,*[6]*d),r(4,3,*[3]*d),r(3))
        c(A._convolution,r(1,4,*[6]*d),r(4,4,*[3]*d),r(4),[1]*d,[0]*d,[1]*d,False,[0]*d,1,False,False,True,True)
        c(A._nnpack_spatial_convolution,r(1,4,6,6),r(4,4,3,3),r(4),[0,0])
    c(A._unsafe_index.Tensor,r(5,4),[torch.tensor([0,1]),torch.tensor([1,2])]); c(A._unsafe_index_put,r(5,4),[torch.tensor([0,1])],r(2,4),True)
    c(A._unsafe_masked_index,r(5,4),torch.ones(2,dtype=torch.bool),[torch.tensor([0,1]),torch.tensor([1,2])],0.); c(A._unsafe_masked_index_put_accumulate,r(5,4),torch.ones(2,dtype=torch.bool),[torch.tensor([0,1]),torch.tensor([1,2])],r(2))
    c(A._index_put_impl,r(5,4),[torch.tensor([0,1])],r(2,4)); c(A._int_mm,torch.ones(4,8,dtype=torch.int8),torch.ones(8,8,dtype=torch.int8))
    P=lambda:[r(3),r(2,2)]
    c(A._fused_adam,P(),P(),P(),P(),[],[torch.tensor(1.),torch.tensor(1.)],lr=.1,beta1=.9,beta2=.99,weight_decay=0.,eps=1e-8,amsgrad=False,maximize=False)
    c(A._fused_adamw,P(),P(),P(),P(),P(),[torch.tensor(1.),torch.tensor(1.)],lr=.1,beta1=.9,beta2=.99,weight_decay=0.,eps=1e-8,amsgrad=True,maximize=False)
    c(A._fused_sgd,P(),P(),P(),weight_decay=0.,momentum=.9,lr=.1,dampening=0.,nesterov=False,maximize=False,is_first_step=False)
    c(A._fused_adagrad,P(),P(),P(),[torch.tensor(1.),torch.tensor(1.)],lr=.1,lr_decay=.1,weight_decay=0.,eps=1e-8,maximize=False)
    for n in ('add','mul','div','sub','maximum','pow'): c(getattr(getattr(A,'_foreach_'+n),'List'),P(),P())
    c(A._foreach_lerp.List,P(),P(),P());c(A._foreach_addcmul.Tensor,P(),P(),P(),torch.ones(2));c(A._foreach_copy,P(),P());c(A._foreach_norm.Scalar,P());c(A._foreach_addcdiv.ScalarList,P(),P(),P(),[1.,2.])
    c(A._amp_foreach_non_finite_check_and_unscale,P(),torch.zeros(1),torch.ones(1)); c(A._amp_update_scale,torch.ones(1),torch.zeros(1,dtype=torch.int32),torch.zeros(1),2.,.5,10)
    bn=lambda f,*a:c(f,r(2,3,4,4),r(3),r(3),*a)
    bn(A._native_batch_norm_legit_functional,r(3),torch.rand(3),True,.1,1e-5); bn(A._native_batch_norm_legit.no_stats,True,.1,1e-5); bn(A._native_batch_norm_legit_no_training,r(3),torch.rand(3),.1,1e-5)
    bn(A._batch_norm_with_update_functional,r(3),torch.rand(3),.1,1e-5); bn(A._batch_norm_no_update,r(3),torch.rand(3),.1,1e-5); c(A.batch_norm_update_stats,r(2,3,4),r(3),torch.rand(3),.1)
    bn(A.native_batch_norm,r(3),torch.rand(3),False,.1,1e-5);bn(A.native_batch_norm,r(3),torch.rand(3),True,.1,1e-5)
    g(lambda x,w:F.rms_norm(x,[4],w),r(2,3,4),r(4)); g(lambda x,w:A._fused_rms_norm(x,[4],w,1e-5)[0],r(2,3,4),r(4))
    c(A.native_channel_shuffle,r(1,4,3,3),2); c(A.native_dropout,r(3,3),.5,True); c(A._reshape_alias,r(12),[3,4],[4,1]); c(A._reshape_alias_copy,r(12),[3,4],[4,1])
    c(A.as_strided,r(12),[3,4],[4,1],0); c(A.as_strided_copy,r(12),[3,4],[4,1],0); c(A.as_strided_scatter,r(12),r(3,4),[3,4],[4,1],0)
    c(A._compute_linear_combination,r(3,4),r(2,3)); c(A._spdiags,r(2,5),torch.tensor([0,1]),[5,5]); c(A._native_multi_head_attention,r(1,4,8),r(1,4,8),r(1,4,8),8,2,r(24,8),r(24),r(8,8),r(8))
    c(A._transformer_encoder_layer_fwd,r(1,4,8),8,2,r(24,8),r(24),r(8,8),r(8),False,False,1e-5,r(8),r(8),r(8),r(8),r(16,8),r(16),r(8,16),r(8))
    c(A.embedding_renorm,r(5,3),torch.tensor([0,1]),1.,2.); c(A.unique_dim,r(4,3),0); c(A.unique_dim_consecutive,r(4,3),0); c(A._linalg_eigvals,r(3,3)); c(A._cholesky_solve_helper,r(3,2),r(3,3),False); c(A._logcumsumexp,r(3,3),0)
    c(A.searchsorted.Tensor,torch.arange(8.),r(4),sorter=torch.arange(8)); c(A.searchsorted.Tensor,torch.arange(8.).expand(2,8).contiguous(),r(2,4)); c(A.bucketize.Tensor,r(4),torch.arange(8.))
    c(A._addmm_activation,r(3),r(2,4),r(4,3)); c(A.glu_jvp,r(2,2),r(2,4),r(2,4),1); c(A.glu_backward_jvp,r(2,4),r(2,4),r(2,4),r(2,2),r(2,4),1)
    c(A.slice_inverse,r(4),r(10),0,2,6,1); c(A.slice_scatter,r(10),r(4),0,2,6,1); c(A.view.dtype,r(4),torch.int32); c(A.view_copy.dtype,r(4),torch.int32); c(A._euclidean_dist,r(3,4),r(2,4)); c(A._grid_sampler_2d_cpu_fallback,r(1,2,4,4),r(1,3,3,2),0,0,False)
    c(A.affine_grid_generator,r(1,2,3),[1,2,4,4],False); c(A.conv_tbc,r(5,2,3),r(3,3,4),r(4)); c(A._aminmax,r(3)); c(A._stack,[r(3),r(3)]); c(A.split_copy.Tensor,r(6),2); c(A.unsafe_split_with_sizes,r(6),[2,4]); c(A._cdist_backward,r(3,2),r(3,4),r(2,4),2.,r(3,2)); c(A._cdist_forward,r(3,4),r(2,4),2.,None)
    c(A.col2im,r(1,8,9),[4,4],[2,2],[1,1],[0,0],[1,1]); c(A.im2col,r(1,2,4,4),[2,2],[1,1],[0,0],[1,1]); c(A._trilinear,r(2,3),r(2,3),r(2,3),[1],[1],[1],[0]); c(A._grouped_mm,r(2,16,16).bfloat16(),r(2,16,16).bfloat16()); c(A._scaled_mm,torch.ones(16,16).to(torch.float8_e4m3fn),torch.ones(16,16).to(torch.float8_e4m3fn).t(),torch.ones(()),torch.ones(()))
    c(A._scaled_dot_product_flash_attention_for_cpu_backward,*([r(1,2,8,16)]*5),r(1,2,8),0.,False); c(A.upsample_nearest3d,r(1,2,3,3,3),[6,6,6]); c(A._fused_moving_avg_obs_fq_helper_functional,r(4),torch.ones(1,dtype=torch.long),torch.ones(1,dtype=torch.long),r(1),r(1),torch.ones(1),torch.zeros(1,dtype=torch.int32),.1,0,255,0)
    x=r(4,3);c(A.fake_quantize_per_channel_affine_cachemask,x,torch.ones(4),torch.zeros(4,dtype=torch.int32),0,0,255);c(A.fake_quantize_per_tensor_affine_cachemask,x,1.,0,0,255);c(A._fake_quantize_per_tensor_affine_cachemask_tensor_qparams,x,torch.ones(1),torch.zeros(1,dtype=torch.int32),torch.ones(1,dtype=torch.long),0,255);c(A._fake_quantize_learnable_per_channel_affine,x,torch.ones(4),torch.zeros(4),0,0,255);c(A._fake_quantize_learnable_per_channel_affine_backward,x,x,torch.ones(4),torch.zeros(4),0,0,255);c(A._fake_quantize_learnable_per_tensor_affine_backward,x,x,torch.ones(1),torch.zeros(1),0,255);c(A._fake_quantize_learnable_per_tensor_affine,x,torch.ones(1),torch.zeros(1),0,255)
    c(A._jagged_to_padded_dense_forward,r(7,3),[torch.tensor([0,3,7])],[4]);c(A._padded_dense_to_jagged_forward,r(2,4,3),[torch.tensor([0,3,7])],7); c(A._segment_reduce_backward,r(2),r(2),r(5),'sum',lengths=torch.tensor([2,3])); c(A.segment_reduce,r(5),'sum',offsets=torch.tensor([0,2,5]),unsafe=True); c(A.segment_reduce,r(5),'max',lengths=torch.tensor([2,3]),unsafe=True)
    c(A._pack_padded_sequence,r(5,2,3),torch.tensor([5,3]),False); c(A.max_unpool2d,r(1,2,2,2),torch.randint(0,16,(1,2,2,2)),[4,4]);c(A.max_unpool3d,r(1,2,2,2,2),torch.randint(0,64,(1,2,2,2,2)),[4,4,4],[2,2,2],[0,0,0]); c(A.histc,r(5)); c(A.bincount,torch.tensor([1,2]),torch.ones(2)); c(A.repeat_interleave.Tensor,torch.tensor([1,2])); c(A.multinomial,torch.rand(3,4),2); c(A._transform_bias_rescale_qkv,r(1,4,24),r(24),2); c(A._nested_from_padded,r(2,3,4),torch.tensor([[3,4],[2,4]])); c(A._weight_int8pack_mm,r(4,32).bfloat16(),torch.ones(32,32,dtype=torch.int8),torch.ones(32).bfloat16()); c(A._convert_indices_from_coo_to_csr,torch.tensor([0,1,1]),4);c(A._convert_indices_from_csr_to_coo,torch.tensor([0,1,3]),torch.tensor([0,1,0]))
    c(A._ctc_loss,r(6,2,5).log_softmax(2),torch.randint(1,5,(2,4)),[6,6],[4,3]); nl,la=A._ctc_loss(r(6,2,5).log_softmax(2),torch.randint(1,5,(2,4)),[6,6],[4,3]); c(A._ctc_loss_backward,r(2),r(6,2,5),torch.randint(1,5,(2,4)),[6,6],[4,3],nl,la,0)


def mutations(leaves):
    """(what, index of the leaf, in place of it)"""
    for i, leaf in enumerate(leaves):
        if torch.is_tensor(leaf):
            yield from ((f"operand {i} {what}", i, value) for what, value in tensors_instead(leaf))
        elif type(leaf) is bool:
            yield f"argument {i} flipped", i, not leaf
        elif type(leaf) is int:
            yield from ((f"argument {i} {value}", i, value) for value in (-(1 << 62), -7, -1, 0, leaf + 5, 1 << 62) if value != leaf)
        elif type(leaf) is float:
            yield from ((f"argument {i} {value}", i, value) for value in (float("nan"), 1e30, -1.0, 0.0))


def tensors_instead(tensor):
    like = dict(dtype=tensor.dtype)
    if tensor.is_floating_point() and tensor.element_size() == 1:
        values = ()
    elif tensor.is_floating_point():
        values = (float("nan"), float("inf"), 60000.0, -60000.0)
    elif tensor.dtype == torch.bool or tensor.is_complex():
        values = ()
    else:
        most = torch.iinfo(tensor.dtype).max
        values = (most // 2, -(most // 2) if tensor.dtype.is_signed else 0, -1 if tensor.dtype.is_signed else most, min(1 << 20, most), max(tensor.numel(), 1) % most)
    for value in values:
        yield f"filled with {value}", torch.full_like(tensor, value)
    for dim, size in enumerate(tensor.shape):
        for other in {0, 1, size - 1, size + 3} - {size, -1}:
            shape = list(tensor.shape)
            shape[dim] = other
            yield f"with size {other} of dim {dim}", torch.ones(shape, **like)
    if tensor.dim():
        yield "as a number", torch.ones((), **like)
        yield "as one element", torch.ones(1, **like)
        yield "empty", torch.ones(0, **like)
        yield "with a dim more", torch.ones([1, *tensor.shape], **like)
        yield "of strides 0", torch.ones((), **like).expand(tensor.shape)
    for dtype in (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.bfloat16):
        if dtype != tensor.dtype:
            yield f"of {dtype}", torch.ones(tensor.shape, dtype=dtype) if tensor.is_complex() else tensor.to(dtype)


def attempt(func, leaves, spec):
    kept.clear()
    args, kwargs = _pytree.tree_unflatten([guard(leaf) if torch.is_tensor(leaf) else leaf for leaf in leaves], spec)
    with torch.inference_mode():
        try:
            func(*args, **kwargs)
        except Exception:
            pass        # refused


def is_fatal(body, seconds):
    """The signal that ends a process which calls `body`; 0 if none does."""
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(seconds)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            body()
        except BaseException:
            pass
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def find_crashes(func, leaves, spec, changes):
    """Those of the changes that end the process, found by halves."""
    def body():
        for _, index, value in changes:
            attempt(func, [*leaves[:index], value, *leaves[index + 1:]], spec)
    if not changes or not (number := is_fatal(body, 12)):
        return []
    if len(changes) == 1:
        # One that takes too long is none that reaches outside.
        return [] if number == signal.SIGALRM else [changes[0][0]]
    half = len(changes) // 2
    return find_crashes(func, leaves, spec, changes[:half]) + find_crashes(func, leaves, spec, changes[half:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take each K-th operator only")
    parser.add_argument("--only", default="", help="operators whose name matches")
    parser.add_argument("--samples", type=int, default=6, help="calls of each operator")
    options = parser.parse_args()
    allowed, ruled = find_allowed(), find_ruled()
    assert allowed and ruled <= allowed, f"rules for what is not allowed: {ruled - allowed}"
    recorder = Recorder(allowed, options.samples)
    record_others(recorder)
    record_database(recorder, options.samples)
    names = [name for name, calls in sorted(recorder.calls.items()) if calls and re.search(options.only, name)][::options.every]
    tried, crashing, unruled = 0, set(), 0
    for name in names:
        crashes = []
        for func, leaves, spec in recorder.calls[name]:
            if is_fatal(lambda: attempt(func, leaves, spec), 12):
                continue        # also with operands that fit
            changes = list(mutations(leaves))
            tried += len(changes)
            crashes += find_crashes(func, leaves, spec, changes)
        if crashes:
            crashing.add(name)
            known = name in ruled
            unruled += not known
            print(f"{'has a rule' if known else 'no rule'}: {name}: {len(crashes)} crashes, the first with {crashes[0]}", flush=True)
    print(f"{tried} calls of {len(names)} of {len(allowed)} operators: {len(crashing)} crash, {unruled} of them without a rule")
    return 1 if unruled or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
