/* Facts and conversions of element types. */
#ifndef MD_BASE_DTYPE_H
#define MD_BASE_DTYPE_H
#include <md/md.h>
#include <stdbool.h>
bool md_dtype_is_real(md_dtype t); /* f32 f64 f16 bf16 */
bool md_dtype_is_usable(md_dtype t); /* neither reserved nor MD_DTYPE_DEFAULT */
/** The type in which values of type t are computed: f32, f64, i64 or bool. */
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
float md_f16_to_f32(uint16_t h);
uint16_t md_f32_to_f16(float f);
float md_bf16_to_f32(uint16_t h);
uint16_t md_f32_to_bf16(float f);
#endif
