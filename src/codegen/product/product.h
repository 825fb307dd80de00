/* A PRODUCT stage as a matrix product, rows x columns, and the functions of it that templates call
 * (src/kernels/host/pack.h and gemm.c say which). Lanes run along the columns; the operand over the rows is shared
 * where a stage has two products. */
#ifndef MD_CODEGEN_PRODUCT_PRODUCT_H
#define MD_CODEGEN_PRODUCT_PRODUCT_H

#include "codegen/codegen.h"

enum { MD_CG_A, MD_CG_B, MD_CG_B2, MD_CG_MAX_OPERANDS };

/* Which of the stage's index groups are the columns. */
typedef enum md_cg_columns {
    MD_CG_COLUMNS_STORED, /* the group that the first store runs over fastest */
    MD_CG_COLUMNS_N,
    MD_CG_COLUMNS_M,
    MD_CG_COLUMNS_GROUPED, /* the stage's n, of a grouped product; the others serve none */
    MD_CG_COLUMNS_SPANS, /* as STORED, of a product whose K has bounds by batch; the others serve none */
    MD_CG_N_COLUMNS
} md_cg_columns;

/* Along what an operand lies in memory: what its (largest) load runs over fastest. */
typedef enum md_cg_along { MD_CG_ALONG_NEITHER, MD_CG_ALONG_DEPTH, MD_CG_ALONG_ROWS } md_cg_along;

struct md_cg_quantised_product;

typedef struct md_cg_product {
    const md_st_program *program;
    int32_t stage;
    bool is_swapped; /* the columns are the stage's m */
    bool is_grouped; /* batches of the operands B are groups, and A has none */
    bool has_spans; /* each batch has a span of K of its own (span.c) */
    int32_t n_rows, n_columns, n_products;
    const int32_t *rows, *columns; /* index ids, in the stage */
    const md_fx_node
        *operand[MD_CG_MAX_OPERANDS]; /* A over batch, rows, k; B over batch, columns, k; B2 NULL for one product */
    /* the LOAD that the operand is, conversions aside: of indices, and of shares (h // 4) of batch indices; NULL: any
     * other expression */
    const md_fx_node *load[MD_CG_MAX_OPERANDS];
    /* the LOAD of an operand that is read row by row (by_row.c): one whose rows lie anywhere. NULL: another */
    const md_fx_node *row_load[MD_CG_MAX_OPERANDS];
    /* the LOAD of an operand that is a window (window.c): one with affine subscripts, zero where a guard of affine
     * comparisons does not hold. NULL: another, or a matrix of one index a side */
    const md_fx_node *window[MD_CG_MAX_OPERANDS];
    md_cg_along along[MD_CG_MAX_OPERANDS];
    md_dtype type; /* of sums, and of accumulators that are not paired */
    /* host: integers of at most 8 bits, or bf16, in memory. Lanes of 32 bits take two steps of K at a time
     * (kernels/host/pairs.h, bf16_pairs.h) */
    bool is_paired;
    md_dev_kind dialect; /* of the text; MD_DEV_HOST by default */
    bool gathers_windows; /* GPU: the template wants the functions of windows */
    /* GPU: the template wants scales and zeros of operands of few bits; NULL: it does not. Outlives the product */
    const struct md_cg_quantised_product *quantised;
} md_cg_product;

/** False where the stage is no product, or cannot be one with these columns: no column at all, or two products that
 * share the columns' operand. The program keeps the answer. */
bool md_cg_product_of(md_cg_product *out, const md_st_program *program, int32_t stage, md_cg_columns columns);

/** Pairs steps of K (is_paired) where both operands are bf16 in memory and the processor multiplies pairs of them. */
void md_cg_product_pair_bf16(md_cg_product *product, const md_dev_facts *facts);

/** True if templates find the elements of windows by their places. */
static inline bool md_cg_product_has_windows(const md_cg_product *product)
{
    return product->dialect == MD_DEV_HOST || product->gathers_windows;
}

/** The load whose elements an operand is, zeros of windows aside, wherever its rows lie; NULL: it is another
 * expression. */
static inline const md_fx_node *md_cg_product_memory(const md_cg_product *product, int32_t operand)
{
    const md_fx_node *load = product->load[operand] ? product->load[operand] : product->row_load[operand];
    return load || !md_cg_product_has_windows(product) ? load : product->window[operand];
}

/** Bytes of an accumulator in the host's registers and packed operands. */
static inline int32_t md_cg_product_acc_bytes(const md_cg_product *product)
{
    return product->type == MD_F32 || product->is_paired ? 4 : 8;
}

static inline md_dtype md_cg_product_dtype(const md_cg_product *product, const md_fx_node *load)
{
    return product->program->formula->tensor[load->id].dtype;
}

/** True if the pairs are of bf16, not of integers. */
static inline bool md_cg_product_pairs_bf16(const md_cg_product *product)
{
    return product->is_paired && md_cg_product_dtype(product, product->load[MD_CG_A]) == MD_BF16;
}

md_cg_along md_cg_product_along(const md_cg_product *product, int32_t operand);
/** Tensors whose last axis must have stride 1 for vector access to an operand. */
uint32_t md_cg_product_unit(const md_cg_product *product, int32_t operand);

/* ---- On a GPU the text has, of the functions named in src/kernels/host/source.h and gemm.c, those for single
 * values and addresses (md_operand_view, _get, _at, _is_plain, _address), sizes, and
 *   md_epilogue(p, batch, row, column, acc0, acc1, md_n)   stores lanes of sums: md_v by value, md_n md_full or md_span
 *   md_epilogue_room(p, column), MD_WRAPS                  the columns are several indices: a vector must not go
 *                                                          beyond the room
 * and what a template needs besides, as `extra` or by md_cg_product_print_result. */

/** Prints md_params (what templates need besides is appended to the list by the caller), operands and epilogue into
 * `expr`, and #define lines into `defines`. */
md_status md_cg_product_print(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product,
                              const md_kn_param *param, int32_t n_params);

/** Where the stage has one store, of a 16-bit type and with unit stride along the columns, and nothing in its value
 * keeps it from being made in pairs: true. */
bool md_cg_product_has_result(const md_cg_product *product);
/** For such a stage: `unsigned md_result(p, batch, row, column, acc0, acc1, md_n)`: two lanes of sums as what would
 * be stored, in MD_VL 2; and `uint16_t *md_result_at(p, batch, row, column)`: where the first of them would be
 * stored. */
md_status md_cg_product_print_result(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);

/* ---- form.c, for the printers */
const md_st_product *md_cg_product_stage(const md_cg_product *product);
/** True if a node is a LOAD whose subscripts are plain indices. */
bool md_cg_product_is_plain(const md_fx_node *node);
/** True for h // 4 and h % 4, where h is a batch index: an operand that uses them is a matrix in memory for each
 * batch. The quotient's or the remainder's constant is arg[1]->integer. */
bool md_cg_product_is_share(const md_cg_product *product, const md_fx_node *subscript);
bool md_cg_product_holds(int32_t n, const int32_t *index, int32_t id);
/** The indices of an operand's batches: those of the stage, or the group. */
const int32_t *md_cg_product_batch(int32_t *n, const md_cg_product *product, int32_t operand);
/** The indices of an operand's rows. */
const int32_t *md_cg_product_group(int32_t *n, const md_cg_product *product, int32_t operand);
/** The index that lanes of an operand's expression run over; -1: none. */
int32_t md_cg_product_lane(const md_cg_product *product, int32_t operand);
/** `1 && p->s3_1 == 1 ...`: true if what the node reads along `lane` in its tensors' last axes has unit stride. */
void md_cg_product_print_unit_test(md_strbuf *out, const md_fx_node *node, int32_t lane);
/** The same of all that the stage's stores read and write along the columns. */
void md_cg_product_print_unit_stores(md_strbuf *out, const md_cg_product *product);

/* ---- by_row.c */
/* Indices that move a load together. */
typedef struct md_cg_stride {
    const char *variable;
    const md_fx_node *load;
    int32_t n;
    const int32_t *index;
} md_cg_stride;
/** Prints `variable` = how far the last index moves the load; and the condition under which all of them move it by
 * that, as "&& ...". */
void md_cg_product_print_stride(md_strbuf *out, md_strbuf *condition, const md_cg_product *product,
                                const md_cg_stride *stride);
/** How far an index moves a load: "(p->s0_1 + p->s0_2)", "0". */
void md_cg_product_print_step(md_strbuf *out, const md_fx_node *load, int32_t index);
/** The functions of operands that are read row by row, if there are any, and MD_BY_ROW, which has their bits:
 *   md_operand_row(p, which, batch, row, &at)   where the row begins; false: it is read as zeros
 *   md_operand_row_step(p, which, &step)        what a step of K adds; false: not always the same */
md_status md_cg_product_print_rows(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);

/* ---- window.c */
/** What runs of an operand that is a window go along: the last of its rows if it moves the load's last subscript, else
 * the last index of K if that does. */
md_cg_along md_cg_product_window_along(const md_cg_product *product, int32_t operand);
/** The first operand that can be read as nothing but a window; -1: none. */
int32_t md_cg_product_window(const md_cg_product *product);
/** True if 32 bits hold the terms of its guard where no size has more than 24. */
bool md_cg_product_window_is_small(const md_cg_product *product, int32_t operand);
/* A window whose elements lie along the last index of K, eight after eight. */
typedef struct md_cg_window_pieces {
    int32_t n_terms; /* of the guard */
} md_cg_window_pieces;
/** False if that index moves anything but the last subscript, by other than one element, or a term of the guard; or if
 * anything else moves the last subscript by no multiple of eight. */
bool md_cg_product_window_pieces(md_cg_window_pieces *out, const md_cg_product *product, int32_t operand);
/** Words of 32 bits with a bit for each point of the filter (of all indices of K but the last), of which there may be
 * 64. */
int32_t md_cg_product_window_point_words(const md_cg_product *product);
/** The functions of operands that are windows (kernels/host/window.h says which), and MD_WINDOWS, which has their
 * bits. */
void md_cg_product_print_windows(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);
/** On a GPU those of the first operand that is one (kernels/cuda/gemm_window.cu), if any is. */
void md_cg_product_print_window(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);

/* ---- grouped.c */
/** The functions of a grouped product: md_points_groups(p), md_look_up(p, row), md_group_at(p, value), which reports a
 * look-up out of range and gives -1, and md_group_of(p, row), both together. */
md_status md_cg_product_print_groups(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);

/* ---- span.c */
/** Of a product whose K has bounds, MD_SPANS and md_span_of(p, batch, &from, &to): the steps of K that a batch sums. */
md_status md_cg_product_print_span(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);

/* ---- value.c */
/** The index that lanes of an operand's expression go along, from row to row until it begins anew: the last of those
 * that count the rows. -1: lanes go along all rows or along K, or the operand is a load. */
int32_t md_cg_product_run(const md_cg_product *product, int32_t operand);
/** md_operand_room of such operands, and MD_RUNS, which has their bits. */
void md_cg_product_print_runs(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);

/** Prints md_lanes_<operand>, an operand's values along the index `lane`, or md_at_<operand> for one value (lane -1).
 * With a weight md_table_<operand>: the values for all that the weight can be. */
md_status md_cg_product_print_value(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product, int32_t operand,
                                    int32_t lane, const md_fx_node *weight);

/* ---- quantised.c */
enum { MD_CG_MOST_SCALES = 3, MD_CG_LONGEST_RUN = 1 << 20 };
/* An operand as (load - zero) * scale. */
typedef struct md_cg_quantised {
    const md_fx_node *load; /* of a matrix for each batch */
    const md_fx_node *zero; /* NULL: none */
    bool is_added; /* the zero is added instead */
    bool is_divisor[MD_CG_MOST_SCALES]; /* the scale divides */
    int32_t n_scales, run; /* steps of K that share zero and scales */
    const md_fx_node *scale[MD_CG_MOST_SCALES];
} md_cg_quantised;

typedef struct md_cg_quantised_product {
    md_cg_quantised operand[MD_CG_MAX_OPERANDS];
    md_dtype type; /* in which loads are multiplied: I32, BF16 or F16 */
    int32_t run; /* steps of K that share zeros and scales of all operands */
    int32_t most_depth; /* K up to which 32 bits hold the sums */
    bool has_scale[2], has_zero; /* of operand A and of operands B; zeros are of B */
} md_cg_quantised_product;

/** True if sums of runs have scales or zeros. */
static inline bool md_cg_quantised_has_qparams(const md_cg_quantised_product *q)
{
    return q->has_scale[0] || q->has_scale[1] || q->has_zero;
}
/** True where all operands have 16 bits or fewer, some at most 8, and tensor cores can multiply their loads, which
 * become the operands of *product. */
bool md_cg_quantised_of(md_cg_quantised_product *out, md_cg_product *product);
/** The greatest common divisor of numbers that are not below 0. */
int32_t md_cg_common_divisor(int64_t a, int64_t b);
/** The load that a scale or zero is, if it is nothing else and its last subscript counts runs of q->run steps. */
const md_fx_node *md_cg_quantised_qparam(const md_cg_quantised *q, bool is_zero);
/** The functions of product->quantised: md_scale_<o>(p, batch, row, k), and for such loads md_scale_at_<o>, which says
 * where one lies, and md_scale_is_unit_<o>(p), true if those of neighbouring runs lie side by side. For zeros, too. */
md_status md_cg_quantised_print(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);

/* ---- halves.c */
/** The functions of kernels/host/half_dots.h, and MD_HALVES_B, where all operands B are functions of one weight. */
md_status md_cg_product_print_halves(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);

/* ---- operand.c */
md_status md_cg_product_print_operands(md_strbuf *defines, md_strbuf *expr, const md_cg_product *product);

#endif
