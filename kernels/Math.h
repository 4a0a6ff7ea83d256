//===- Math.h - What kernels compute of a number ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each function is written once, over a builder: one computes, for the
// interpreter, others write code. A builder has f32 numbers (F), 32 bits of
// integer beside each (I) and truths (B), and IEEE's arithmetic on them, each
// operation rounded once; so all of them give the same bits.
//
//   F number(float, F like)   I bits(int32_t, I like)     of any width
//   F add sub mul div (F, F)  F fma(F, F, F)  F sqrt floor ceil trunc nearest
//   (F) I addBits subBits andBits orBits (I, I)   I shiftLeft shiftRight
//   (logical)
//     shiftRightSigned (I, unsigned)
//   I asBits(F)  F asNumber(I)   F fromBits(I): its value as signed integer
//   B less lessEqual equal isNan ...   F select(B, F, F)  I selectBits(B, I, I)
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_MATH_H
#define FSDP_KERNELS_MATH_H

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace fsdp {

template <typename Builder>
class KernelMath {
  using F = typename Builder::F;
  using I = typename Builder::I;
  using B = typename Builder::B;
  Builder &b;

public:
  explicit KernelMath(Builder &builder) : b(builder) {}

  // In a form that becomes a processor's maximum, behind one select.
  F maximum(F x, F y) {
    F other = b.select(b.isNan(x), x, y);
    return b.select(b.less(other, x), x, other);
  }
  F minimum(F x, F y) {
    F other = b.select(b.isNan(x), x, y);
    return b.select(b.less(x, other), x, other);
  }
  F abs(F x) {
    I bits = b.asBits(x);
    return b.asNumber(b.andBits(bits, b.bits(0x7fffffff, bits)));
  }
  F neg(F x) {
    I bits = b.asBits(x);
    return b.asNumber(
        b.addBits(bits, b.bits(std::numeric_limits<int32_t>::min(), bits)));
  }

  /// 2^n p(r), |r| <= ln 2 / 2: within 1.01 ulp, subnormal results rounded once
  /// more.
  F exp(F x) {
    // Some have one of their own.
    if constexpr (requires { b.ownExp(x); })
      if (auto own = b.ownExp(x))
        return *own;
    // Beyond these the result is 0, or infinite. A NaN stays one, here and in
    // all that follows.
    F least = b.number(-104.5f, x), most = b.number(89.5f, x);
    F clamped = b.select(b.less(x, least), least, x);
    clamped = b.select(b.less(most, clamped), most, clamped);
    // The sum's low bits are n + 254; 1.5 * 2^23 + 254.
    F magic = b.number(12583166.0f, x);
    F shifted = b.fma(clamped, b.number(1.44269504088896341f, x), magic);
    F n = b.sub(shifted, magic);
    F r = b.fma(n, b.number(-0.693145751953125f, x), clamped);
    r = b.fma(n, b.number(-1.42860682030941723212e-6f, x), r);
    F p = polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                         4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f});
    p = b.add(b.fma(p, b.mul(r, r), r), b.number(1, x));
    // In two factors, since 2^n itself may be subnormal or infinite: halves of
    // n, each with 127, become their exponents; the bits above are shifted out.
    I whole = b.asBits(shifted), half = b.shiftRight(whole, 1);
    F scaled = b.mul(p, b.asNumber(b.shiftLeft(half, 23)));
    return b.mul(scaled, b.asNumber(b.shiftLeft(b.subBits(whole, half), 23)));
  }

  /// Within 0.9 ulp; -infinity of 0, a NaN of less.
  F log(F x) {
    // Subnormal numbers are made normal first.
    B isSmall = b.less(x, b.number(0x1p-126f, x));
    F normal = b.select(isSmall, b.mul(x, b.number(0x1p23f, x)), x);
    I root = b.bits(0x3f3504f3, b.asBits(x)); // of 1/2
    I bits = b.subBits(b.asBits(normal), root);
    F e = b.fromBits(b.shiftRightSigned(bits, 23));
    e = b.select(isSmall, b.sub(e, b.number(23, x)), e);
    F m = b.asNumber(b.addBits(b.andBits(bits, b.bits(0x7fffff, bits)), root));
    F f = b.sub(m, b.number(1, x));
    F p =
        polynomial(f, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f,
                       -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f,
                       2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f});
    F z = b.mul(f, f);
    p = b.mul(p, b.mul(f, z));
    p = b.fma(e, b.number(-2.12194440e-4f, x), p);
    p = b.fma(z, b.number(-0.5f, x), p);
    p = b.fma(e, b.number(0.693359375f, x), b.add(f, p));
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    F infinity = b.number(kInfinity, x), zero = b.number(0, x);
    p = b.select(b.equal(x, infinity), x, p);
    p = b.select(b.equal(x, zero), b.number(-kInfinity, x), p);
    return b.select(b.lessEqual(zero, x), p,
                    b.number(std::numeric_limits<float>::quiet_NaN(), x));
  }

  /// x + x^3 p(x^2) below 0.625, 1 - 2 / (e^2x + 1) above: within 1.3 ulp.
  F tanh(F x) {
    F size = abs(x), z = b.mul(x, x);
    F p = polynomial(z,
                     {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                      1.33314422036e-1f, -3.33332819422e-1f});
    F small = b.fma(b.mul(p, z), size, size);
    F one = b.number(1, x), two = b.number(2, x);
    F large = b.sub(one, b.div(two, b.add(exp(b.add(size, size)), one)));
    return copySign(b.select(b.less(size, b.number(0.625f, x)), small, large),
                    x);
  }

  /// x + x p(x^2) below 0.92, 1 - e^q(x) above, where q is the logarithm of
  /// 1 - erf x; beyond 4 it is 1. Within 1.1 ulp.
  F erf(F x) {
    F size = abs(x);
    F p = polynomial(b.mul(x, x), {8.374884e-5f, -8.144442e-4f, 5.2012494e-3f,
                                   -2.6859516e-2f, 1.1283699e-1f,
                                   -3.7612635e-1f, 1.2837917e-1f});
    F small = b.fma(p, size, size);
    F q = polynomial(minimum(size, b.number(4, x)),
                     {-2.1038904e-5f, 4.3379545e-4f, -4.1677402e-3f,
                      2.5110433e-2f, -1.08265795e-1f, -6.3336027e-1f,
                      -1.1295081f, 1.7323994e-4f});
    F large = b.sub(b.number(1, x), exp(q));
    return copySign(b.select(b.less(size, b.number(0.92f, x)), small, large),
                    x);
  }

  /// Ties to even; subnormal ones as well, since they are f32's.
  F roundBf16(F x) {
    I bits = b.asBits(x);
    I odd = b.andBits(b.shiftRight(bits, 16), b.bits(1, bits));
    I up = b.addBits(bits, b.addBits(odd, b.bits(0x7fff, bits)));
    I cut = b.andBits(up, b.bits(int32_t(0xffff0000), bits));
    return b.asNumber(b.selectBits(b.isNan(x), b.bits(0x7fc00000, bits), cut));
  }

  F roundF16(F x) {
    I bits = b.asBits(x);
    I sign = b.andBits(bits, b.bits(std::numeric_limits<int32_t>::min(), bits));
    F size = abs(x);
    // Numbers with ten bits behind the first; the greatest may become 65536.
    I sized = b.asBits(size);
    I odd = b.andBits(b.shiftRight(sized, 13), b.bits(1, bits));
    I up = b.addBits(sized, b.addBits(odd, b.bits(0xfff, bits)));
    F normal = b.asNumber(b.andBits(up, b.bits(int32_t(0xffffe000), bits)));
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    normal = b.select(b.less(normal, b.number(65520, x)), normal,
                      b.number(kInfinity, x));
    // Below 2^-14 multiples of 2^-24: the sum with 0.5 has no more bits.
    F half = b.number(0.5f, x);
    F subnormal = b.sub(b.add(size, half), half);
    F rounded =
        b.select(b.less(size, b.number(0x1p-14f, x)), subnormal, normal);
    I result = b.orBits(b.asBits(rounded), sign);
    return b.asNumber(
        b.selectBits(b.isNan(x), b.bits(0x7fc00000, bits), result));
  }

  /// The code of the nearest number of eight bits, in the lowest byte, ties to
  /// even, as c10 converts: e4m3, whose numbers end at 448, or e5m2.
  I toFloat8(F x, bool isE4m3) {
    const unsigned cut = isE4m3 ? 20 : 21; // of f32's digits
    const int32_t bias = isE4m3 ? 7 : 15;
    I bits = b.asBits(x);
    F size = abs(x);
    I sized = b.asBits(size);
    I odd = b.andBits(b.shiftRight(sized, cut), b.bits(1, bits));
    I up = b.addBits(sized, b.addBits(odd, b.bits((1 << (cut - 1)) - 1, bits)));
    I normal =
        b.shiftRight(b.subBits(up, b.bits((127 - bias) << 23, bits)), cut);
    // Below the least normal number an addition rounds where digits end.
    F least = b.number(isE4m3 ? 0x1p-6f : 0x1p-14f, x);
    F end = b.number(isE4m3 ? 0x1p14f : 0x1p7f, x);
    I small = b.subBits(b.asBits(b.add(size, end)), b.asBits(end));
    I code = b.selectBits(b.less(size, least), small, normal);
    // A NaN, which e4m3 has for want of infinities, or infinite.
    F last = b.number(isE4m3 ? 464 : 0x1.fffffep15f, x);
    code = b.selectBits(b.less(last, size), b.bits(isE4m3 ? 0x7f : 0x7c, bits),
                        code);
    code =
        b.orBits(code, b.andBits(b.shiftRight(bits, 24), b.bits(0x80, bits)));
    return b.selectBits(b.isNan(x), b.bits(0x7f, bits), code);
  }

private:
  F polynomial(F x, std::initializer_list<float> coefficients) {
    auto next = coefficients.begin();
    F sum = b.number(*next++, x);
    for (; next != coefficients.end(); ++next)
      sum = b.fma(sum, x, b.number(*next, x));
    return sum;
  }
  F copySign(F positive, F sign) {
    I bits = b.asBits(sign);
    return b.asNumber(b.orBits(
        b.asBits(positive),
        b.andBits(bits, b.bits(std::numeric_limits<int32_t>::min(), bits))));
  }
};

} // namespace fsdp

#endif // FSDP_KERNELS_MATH_H
