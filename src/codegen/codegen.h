/* Expressions to C text in the dialect of a device: straight-line code over typed values, common subexpressions
 * once.
 *
 * ---- The vocabulary of generated text (src/kernels/<device>/prelude.h, memory.h, math.h define it) MD_VL lanes: a
 * power of 2, >= 2; 16 by default, md_cg_width(facts) in practice (vector_bytes / 4), so that md_f and md_b fill one
 * register; md_d and md_i then take two, which the prelude splits where the compiler would fall back to scalars.
 * Suffixes name types:          lanes                          one value
 *   f32                         md_f, suffix f                 float, suffix sf
 *   f64                         md_d, suffix d                 double, suffix sd
 *   i64                         md_i (int64 lanes; int32 with MD_NARROW, which md_cg_print_uses defines where all
 *                               values of the stage fit), suffix i    int64_t, suffix si
 *   bool                        md_b (int32 lanes, 0 or -1), b int (0 or 1), suffix sb
 * Below, S stands for any of the eight suffixes; lane and scalar forms of one name give the same bits.
 *   + - * / and unary -         C operators (f d i, and scalars; / on reals only). Integers wrap (-fwrapv)
 *   md_splat_f(float)           and d, i, b (from int 0/1): the same value in all lanes
 *   md_iota_i(int64_t first)    first, first + 1, ...
 *   md_cast_<from>_<to>(v)      e.g. md_cast_f_d, md_cast_si_sf; to b: != 0; reals to i: truncate, saturate, NaN is
 *                               0
 *   md_round_<dtype>_S(v)       value after a store and a load: bf16 f16 (f d i) give f; i32 u8 (f d saturate, i
 *                               wraps) give i
 *   md_odd_d_f, md_odd_i_f      rounded to odd: what is then stored as bf16 or f16 was rounded once
 *   md_lt le gt ge eq ne _S     give b (scalar: sb). md_and_b or_b not_b; md_isnan_S, md_isinf_S (f d)
 *   md_where_S(b, S, S)         selects by bits
 *   md_min_S md_max_S           f d: a NaN on either side gives NaN; i; b
 *   md_clamp_S md_abs_S md_sign_S md_relu_S md_floordiv_S md_mod_S md_floor_S ceil round trunc sqrt rsqrt fma
 *   md_exp_S, md_tanh_S, ...    the functions with UNITS in expr/ops.def (f d sf sd: math*.h; pow_i pow_si: prelude.h).
 *                               math*.h define those that MD_USE_<ENUM> asks for (MD_USE_EXP, MD_USE_GELU_TANH, ...)
 *   md_philox_S(S, S, S)        i and si, under MD_USE_PHILOX
 *   md_any_b(b), md_all_b(b)    int; md_head_b(n): the first n lanes
 *   md_low_d(d), md_high_d(d)   halves as md_dh; md_join_d(low, high); the same for i (md_ih)
 * Memory: T is a storage dtype (f32 f64 f16 bf16 i32 i64 u8 bool), t a pointer to the tensor, o an offset in
 * elements, V the compute type of T (f, d, i or b). MD_USE_<DTYPE> (MD_USE_BF16, ...) asks for T's functions;
 * md_cg_print_uses writes these defines.
 *   md_load_T_unit(t, o, n)                 lanes 0 .. n-1 from consecutive elements, the others 0 and not read; n =
 *                                           0 .. MD_VL
 *   md_load_T_unit_m(t, o, n, b)            only lanes where b holds are read
 *   md_load_T_strided(t, o, s, n), _m       lane l from o + l * s
 *   md_load_T_gather(t, md_i o, n), _m      each lane from its own offset
 *   md_load_T_s(t, o)                       one value, scalar compute type
 *   md_store_T_unit(t, o, v, n), _unit_nt (streaming), _strided(t, o, s, v, n), _scatter(t, md_i o, v, n, b),
 *   md_store_T_s(t, o, v)                   v of the compute type; f16, bf16 round to nearest even, i32 and u8 take
 *                                           the low bits
 *   md_update_add_T_s(t, o, v), mul, max, min    memory = op(memory, v), in lane order for the lane forms: _unit,
 *                                           _strided, _scatter
 *   md_report(report, tensor, axis, value)  an index out of range; first wins. md_report_lanes(report, tensor, axis,
 *                                           md_i, md_b bad)
 *   md_lead_T(t, o)                         elements from t + o to the next vector boundary (_unit_nt stores streams
 *                                           only at one); md_stream_end()
 * Lanes of one byte or two (options.bytes; kernels/host/bytes.h): md_y, suffix y, for i64 (for f32 where reals stay as
 * memory holds them), and md_z, suffix z, for bool; md_load_T_bytes and md_store_T_bytes for _unit. The text steps by
 * MD_VECTOR_LANES, which is MD_VL elsewhere.
 * Where n is the constant MD_VL a unit load or store is one vector move. Flags that the text expects: -O2 -fwrapv
 * -fno-math-errno -fno-trapping-math -ffp-contract=off, never -ffast-math. Text that defines MD_CONTRACT lets a * b
 * + c become an fma (products do).
 *
 * ---- On a GPU (dialect MD_DEV_CUDA; src/kernels/cuda) the same text is C++ for NVRTC, with no header of CUDA's
 * Lanes are the elements that one thread holds of a row: md_f is a struct of MD_VL floats in registers with the
 * operators above (md_b of ints 0 or -1). MD_VL is what the family defines: md_fa_cuda_width, 16 bytes of the
 * narrowest tensor. Which thread has which vector is the template's affair.
 *   md_n                        is not an int but one of three types that text only hands on: md_full (all lanes),
 *                               md_whole (all, and the template has seen that vectors are aligned) or md_span (lanes
 *                               lo .. hi-1). Functions that take it are templates on its type: MD_N_DECL in front,
 *                               the parameter is `md_n_t md_n`; whole vectors cost no masks. `(c) ? md_n : 0` is
 *                               md_when(c, md_n)
 *   md_load_T_unit(t, o, md_n)  one 16-byte load (or less) where the address allows it, which is known at compile
 *                               time for md_whole and if MD_ALIGNED is 1 (the envelope promises it), and asked at
 *                               run time otherwise; lanes outside the span are never touched. md_load_T_unit_any,
 *                               md_store_T_unit_any, md_fetch_T_unit_any: asked in any case (the last subscript is
 *                               not just the lane index)
 *   md_raw_T, md_fetch_T_unit(t, o, md_n), md_fetch_T_strided(t, o, s, md_n), md_unpack_T(raw) the same in two
 *   steps: raw is as the memory holds it (a bf16 vector is 4 registers), so that it can be kept on chip
 *   md_pos                      type of positions along the lanes inside a row: int32 where MD_WIDE is 0 (the
 *                               envelope promises < 2^31), else int64
 *   Reductions and templates: src/codegen/row.h.
 *
 * One lane index runs over the lanes; all other indices are int64_t x<id>. Values that do not vary over the lanes
 * ("uniform") are scalars. */
#ifndef MD_CODEGEN_CODEGEN_H
#define MD_CODEGEN_CODEGEN_H

#include "base/status.h"
#include "base/strbuf.h"
#include "device/device.h"
#include "kernel/kernel.h"
#include "stage/stage.h"

typedef struct md_cg md_cg;
enum { MD_CG_MAX_FETCHED = 16 };

typedef enum md_cg_access { MD_CG_UNIT, MD_CG_STRIDED } md_cg_access; /* lane loads: stride 1 known, or any stride */

/* Lanes of half a byte, of one, or of two (kernels/host/bytes.h) hold all values of the stage: integers with a sign or
 * without, or reals as memory holds them. */
typedef enum md_cg_bytes {
    MD_CG_NO_BYTES,
    MD_CG_SIGNED_HALVES,
    MD_CG_UNSIGNED_HALVES,
    MD_CG_SIGNED_BYTES,
    MD_CG_UNSIGNED_BYTES,
    MD_CG_SIGNED_WORDS,
    MD_CG_UNSIGNED_WORDS,
    MD_CG_F8E4M3_BITS,
    MD_CG_F8E5M2_BITS,
    MD_CG_BF16_BITS,
    MD_CG_F16_BITS
} md_cg_bytes;

typedef struct md_cg_options {
    const md_st_program *program;
    int32_t stage;
    md_dev_kind dialect;
    int32_t lane; /* index id that runs over the lanes; -1: none, all scalar */
    md_cg_access access;
    bool streaming; /* unit stores pass the caches by; the family's envelope then asks for `aligned` */
    /* scatters: a block writes only where the first checked subscript of a store lies in own .. own + n_own - 1,
     * variables of the text */
    bool is_owned;
    /* scatters: sums go to md_bin_<how> (kernels/host/scatter_bins.c); loads ask at run time whether strides are 1 */
    bool is_binned;
    md_cg_bytes bytes; /* of md_cg_byte_lanes */
    bool ignores_lengths; /* lengths above their size are reported elsewhere */
    bool fuses; /* products that a reduction of lanes adds up are not rounded */
    int32_t n_grouped; /* results that are computed together, neighbours along the index `grouped`; 0: one by one */
    int32_t grouped;
    /* results of a group are scalars at any points: MD_CELL(g) declares the indices of the g-th, and stores go to its
     * r.y<number>. Sums are those of lanes */
    bool is_cells;
    uint32_t unit; /* of cells: tensors whose last axis has stride 1 */
    bool is_exact; /* of cells: values are bf16 already, so that nothing is rounded */
    int32_t step; /* of cells: the index of their planes; -1: none */
    int32_t beside; /* of cells: they are `beside` elements from first<id> along this index; -1: anywhere */
    bool is_cyclic; /* of a merged lane: see md_cg_cyclic */
    int32_t n_flat; /* > 1: the lane runs over these indices as one axis; the last is `lane`. See md_cg_flat */
    int32_t flat[MD_MAX_RANK * 2];
} md_cg_options;

/** A printer for one stage. It collects text of functions; NULL when memory is short. */
md_cg *md_cg_create(const md_cg_options *options);
void md_cg_destroy(md_cg **cg);

/** Lanes of f32 that fill a register of the device: what a family defines as MD_VL. At least 4. */
int32_t md_cg_width(const md_dev_facts *facts);

/** The parameter list of the stage: pointers, strides, extents, dynamic sizes, scalars, report, in a fixed order.
 * Returns the count; -1 where it would exceed MD_KN_MAX_PARAMS - 8 (a family may append WORKSPACE and BLOCKS). */
int32_t md_cg_params(md_kn_param *out, const md_st_program *program, int32_t stage);
/** `typedef struct md_params {...} md_params;` for such a list. */
void md_cg_print_params(md_strbuf *out, const md_kn_param *list, int32_t n);
/** The same as `md_short_params`, sizes and strides in 32 bits, and md_shorten(p), which makes it. */
void md_cg_print_short_params(md_strbuf *out, const md_kn_param *list, int32_t n);
/** The size of an index as C text: "4096" where static, "p->n3" where dynamic. Into buf (32 bytes). */
const char *md_cg_size(char buf[32], const md_st_program *program, int32_t index);
/** The product of the sizes of indices as C text: "(p->n0 * 64)"; "1" for none. */
void md_cg_print_points(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *index);
/** `int64_t x<id> = ...;` for each index from the linear number in C variable `point` (slowest first), and the
 * statement that steps them all to the next point. */
void md_cg_print_decode(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *index,
                        const char *point);
void md_cg_print_advance(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *index);

/** Calls fn on every node of the stage: values and subscripts of stores, bodies, operands. Nodes may be met more than
 * once. */
void md_cg_visit(const md_st_stage *stage, md_fx_visit_fn fn, void *user);

/** Bit t: under MD_CG_UNIT with this lane index, tensor t is read or written in vectors, and its last axis must have
 * stride 1: envelope.unit. */
uint32_t md_cg_unit_tensors(const md_st_program *program, int32_t stage, int32_t lane);
/** How many of the last indices (outer, then the axis) can run as one axis because every tensor has all of them as
 * its last axes, in order, or none, and none is used as a number; 1 where nothing can be merged. `tensors`: those
 * that must be contiguous then. Into options.flat. */
int32_t md_cg_flat(int32_t out[MD_MAX_RANK * 2], uint32_t *tensors, const md_st_program *program, int32_t stage);
/** The same where loads may also run over the last index alone, as a bias of three channels does: along the merged axis
 * they repeat. 1 where there is no such load. The text keeps each period, of MD_CYCLE elements at most, in an array of
 * its prologue, and finds `phase`, the position of the first lane in it, in a variable. */
int32_t md_cg_cyclic(int32_t out[MD_MAX_RANK * 2], uint32_t *tensors, const md_st_program *program, int32_t stage);

/** Starts a function body: forgets known values. */
void md_cg_begin(md_cg *cg, md_strbuf *body);
/** From now on, uniform values that can be computed unconditionally are printed to `prologue` (in front of the loop
 * over lanes; x<lane> is not known there). The text is run only where at least one lane is. NULL ends it. Between
 * begin and the first value. */
void md_cg_hoist(md_cg *cg, md_strbuf *prologue);
/** Between begin and the first value: what is printed until md_cg_end_group computes options.n_grouped results, with
 * variable `first` the first one's position along options.grouped, and macro MD_GROUP. Reductions of `value` over lanes
 * are done for all of them at once; the rest, which the caller prints, result by result. */
void md_cg_begin_group(md_cg *cg, const md_fx_node *value);
void md_cg_end_group(md_cg *cg);
/** A copy of a node, made by hand, that lives as long as cg (its operands are shared); NULL when memory is short. */
const md_fx_node *md_cg_keep(md_cg *cg, const md_fx_node *node);
/** Says that a node (by structural equality; a REF or COUNT node, say) is already in C variable `name`; is_uniform: a
 * scalar. After begin. */
void md_cg_bind(md_cg *cg, const md_fx_node *node, const char *name, bool is_uniform);
/** The same for REF id of this type. */
void md_cg_bind_ref(md_cg *cg, int32_t id, md_dtype type, const char *name, bool is_uniform);
/** GPU: scalars are some of many that share their sums: divided by one, they are multiplied by its reciprocal. */
void md_cg_invert_sums(md_cg *cg);
/** Prints what is needed so that the returned C variable or literal (owned by cg until it is destroyed) holds the
 * node's value; `is_uniform` (may be NULL) tells whether it is a scalar that lanes share. In the text: `p` the
 * parameters, x<id> the indices, `x<lane>` the first lane's position, `md_n` the number of valid lanes (1..MD_VL;
 * loads beyond it are not made). NULL on failure (md_cg_status). */
const char *md_cg_value(md_cg *cg, const md_fx_node *node, bool *is_uniform);
/** The same, widened to a lane value if it is uniform. */
const char *md_cg_lanes(md_cg *cg, const md_fx_node *node);
/** The same, converted to another value type (F32 F64 I64 BOOL) as operands of operations are. `name` holds a value
 * of type `from`. */
const char *md_cg_convert(md_cg *cg, const char *name, md_dtype from, md_dtype to, bool is_uniform);
/** Where a load that lanes share lies: its offset in elements, and in *condition what must hold that its checked
 * subscripts are inside (NULL: they are). */
const char *md_cg_offset(md_cg *cg, const md_fx_node *load, const char **condition);
/** Prints a store of `value` (a C variable of type store->value->type) per store's subscripts, dtype conversion,
 * assign and bounds. */
void md_cg_store(md_cg *cg, const md_st_store *store, const char *value, bool is_uniform);
/** Condition under which the store printed last writes anything, as far as it is known before the lanes: an
 * expression over variables of the prologue; NULL: always, or it differs by lane. */
const char *md_cg_store_condition(const md_cg *cg);
/** The length of a tensor's axis as C text. */
void md_cg_print_length(md_strbuf *out, const md_st_program *program, int32_t tensor, int32_t axis);
/** The number of elements of a tensor as C text. */
void md_cg_print_elements(md_strbuf *out, const md_st_program *program, int32_t tensor);
/** The length of the first axis of a store whose subscript is checked, as C text; NULL where there is none. */
const char *md_cg_own_extent(md_cg *cg, const md_st_store *store);
/** Prints an expression: how many lanes from x<lane> on until the store's vectors are aligned; 0 where it has none.
 * After the store. */
void md_cg_print_lead(md_cg *cg, const md_st_store *store, md_strbuf *out);
/** The start value of a reduction or scan, as a C constant: "0", "1", "INT64_MIN", "-__builtin_inf()". */
const char *md_cg_start_text(md_fx_op op, md_dtype type);
/** On a GPU: the loads of a pointwise stage that can be made ahead of everything else: every distinct one with affine
 * subscripts that stands in no arm of a where and in no loop. At most MD_CG_MAX_FETCHED; others stay where they are
 * used. */
int32_t md_cg_fetchable(const md_fx_node *out[MD_CG_MAX_FETCHED], const md_st_program *program, int32_t stage);
/** The text that makes such a load: "md_fetch_f32_unit(...)" of the type "md_raw_f32" (`type`), or, where all lanes
 * share it (`is_uniform`), "md_load_f32_s(...)" of the type "float". What it needs is printed first. NULL on
 * failure. */
const char *md_cg_fetch(md_cg *cg, const md_fx_node *load, const char **type, bool *is_uniform);
/** The first error that was met; MD_OK if there was none. */
md_status md_cg_status(const md_cg *cg);
/** `#define MD_USE_...` for the operations printed so far and the dtypes of the stage's tensors: into `defines` of
 * md_cg_assemble. */
void md_cg_print_uses(const md_cg *cg, md_strbuf *out);
/** True if the stage has integers as lanes, and all of them fit into 32 bits with a sign whatever the data:
 * MD_NARROW of host kernels. */
bool md_cg_has_narrow_integers(const md_st_program *program, int32_t stage);
/** Whether lanes of one byte do for a pointwise stage, or a row program over its rows, on the host: every value that
 * lanes hold fits into one, or only its low bits matter. Loads and stores along the lanes must be unit ones. */
md_cg_bytes md_cg_byte_lanes(const md_st_program *program, int32_t stage);
/** Bits of an element where an elementwise stage's only result is a function of one element of as many bits, 4 or 8, at
 * the same place, and of scalars; else 0. *from: the tensor that is read. */
int32_t md_cg_tabled(int32_t *from, const md_st_program *program, int32_t stage);
/** How many lanes of half a byte, one or two take the place of one of 32 bits: 8, 4, 2 or 1. */
int32_t md_cg_lanes_per_32_bits(md_cg_bytes bytes);
/** True if C's operators do for lanes. */
bool md_cg_has_byte_operators(md_cg_bytes bytes);
/** The real type whose values lanes hold as memory does; MD_F32 where they do not. */
md_dtype md_cg_bits_dtype(md_cg_bytes bytes);
/** Scalar C type and lane C type of a value type: "float"/"md_f"; their suffixes: "sf"/"f". */
const char *md_cg_scalar_type(md_dtype type);
const char *md_cg_lane_type(md_dtype type);
const char *md_cg_suffix(md_dtype type, bool is_uniform);
/** The lane forms where lanes are bytes: "md_y", "y". */
const char *md_cg_byte_type(md_dtype type);
const char *md_cg_byte_suffix(md_dtype type);

/** Joins prelude, config, expressions and an embedded template into one text: `defines` is a text of #define lines.
 * The template (an embedded file such as "host/row_persistent.c") includes "md_config.h", "prelude.h" and
 * "md_expr.h" in that order; those lines are replaced, as are includes of other embedded files of the device. */
md_status md_cg_assemble(md_strbuf *out, md_dev_kind dialect, const char *template_name, const char *defines,
                         const char *expr);

#endif
