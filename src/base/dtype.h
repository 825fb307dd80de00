/* Facts and conversions of element types. */
#ifndef MD_BASE_DTYPE_H
#define MD_BASE_DTYPE_H
#include "base/number/number.h"

#include <md/md.h>
#include <stdbool.h>
bool md_dtype_is_real(md_dtype t); /* f32 f64 f16 bf16 f8e4m3 f8e5m2 */
/** True if a value of the compute type may change when it is stored: all but f32, f64, i64, u64 and bool. */
bool md_dtype_is_narrow(md_dtype t);
bool md_dtype_is_unsigned(md_dtype t); /* u4 u8 u16 u32 u64 */
bool md_dtype_is_packed(md_dtype t); /* i4 u4: two elements to a byte, though md_dtype_size is 1 */
int md_dtype_bits(md_dtype t); /* of an element */
double md_dtype_bytes(md_dtype t); /* the same in bytes: 0.5 of a packed one */
/** Bytes that n consecutive elements take from the start of a byte on; n elements that n_bytes hold. */
int64_t md_dtype_span(md_dtype t, int64_t n);
int64_t md_dtype_capacity(md_dtype t, int64_t n_bytes);
/** The name of its element's type in C; 8-bit and 16-bit reals are their bits. "?" for a value that is no dtype. */
const char *md_dtype_c_type(md_dtype t);
/** The k-th dtype in the order of the table, from k = 0; MD_DTYPE_DEFAULT behind the last. */
md_dtype md_dtype_nth(int32_t k);
/** The type in which values of type t are computed: f32, f64, i64 or bool. Of u64 the bits are an i64. */
md_dtype md_dtype_compute(md_dtype t);
/** Loads element i of an array of type t, as a double or as an integer (exact for all integer types). */
double md_dtype_load(md_dtype t, const void *base, int64_t i);
int64_t md_dtype_load_int(md_dtype t, const void *base, int64_t i);
/** Stores element i, rounded to nearest even. A real stored as an integer is truncated and saturates; NaN gives 0. */
void md_dtype_store(md_dtype t, void *base, int64_t i, double value);
void md_dtype_store_int(md_dtype t, void *base, int64_t i, int64_t value);
/** The value that a store and a load of type t give. */
double md_dtype_round(md_dtype t, double value);
/** Unit roundoff: half the distance from 1 to the next value; 2^-24 for f32, 0 for integers. */
double md_dtype_roundoff(md_dtype t);
/** What a value may be off by, in parts of it, if it is rounded to t at another place of a computation than the formula
 * says, multiplied by something that is not rounded: half an ulp there, and half an ulp that is left out. */
static inline double md_dtype_moved_roundoff(md_dtype t)
{
    return 2.0 * md_dtype_roundoff(t);
}
#endif
