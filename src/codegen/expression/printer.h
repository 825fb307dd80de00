/* What the parts of the printer share. Private to codegen. */
#ifndef MD_CODEGEN_EXPRESSION_PRINTER_H
#define MD_CODEGEN_EXPRESSION_PRINTER_H

#include "base/arena.h"
#include "codegen/codegen.h"
#include "expr/memo.h"

enum { MD_CG_MAX_SCOPES = 64 };

/* A C variable or literal, and whether lanes share it. NULL after an error. */
typedef struct md_cg_name {
    const char *text;
    bool is_uniform;
} md_cg_name;

/* A name under which a value, or a text, is known: valid while its scope is open and, if it holds only for some
 * lanes, under that mask. */
typedef struct md_cg_known {
    struct md_cg_known *next;
    md_cg_name name;
    const char *mask;
    int32_t scope;
} md_cg_known;

/* A value number: all nodes of one structure. */
typedef struct md_cg_value_number {
    const md_fx_node *node;
    struct md_cg_value_number **arg;
    uint64_t hash;
    int32_t epoch; /* of the body in which `varies` and `known` were set; in another body they are void */
    int8_t varies; /* over the lanes: -1 not yet known */
    /* reads memory that may lie outside where a guard does not hold, reports lengths, or loops: -1 not yet known */
    int8_t is_guarded;
    md_cg_known *known;
} md_cg_value_number;

/* A text whose value already is in a variable. */
typedef struct md_cg_text {
    struct md_cg_text *next;
    const char *text;
    md_cg_known known;
} md_cg_text;

/* A C block in the generated text. */
typedef struct md_cg_scope {
    int32_t id;
    int32_t hidden; /* index whose x<id> is another one inside; -1 */
} md_cg_scope;

enum { MD_CG_MAX_GROUPED = 8 };

/* Results that are computed together (group.c). */
typedef struct md_cg_group {
    bool is_open; /* reductions of lanes have an accumulator for each result */
    int32_t n;
    md_cg_value_number *reduction[MD_CG_MAX_GROUPED];
    const char *text[MD_CG_MAX_GROUPED]; /* what they are for result g */
} md_cg_group;

struct md_cg {
    md_cg_options o;
    const md_st_program *program;
    const md_fx_formula *formula;
    const md_st_stage *stage;
    md_arena *arena;
    md_strbuf *body, *prologue; /* prologue: NULL where nothing is hoisted */
    md_strbuf *sink; /* of the innermost block; NULL at depth 0 */
    md_memo numbers; /* node -> value number */
    md_cg_value_number **value;
    int32_t n_values;
    int32_t epoch, n_names, n_scopes_made;
    int32_t depth;
    md_cg_scope scope[MD_CG_MAX_SCOPES];
    md_cg_text *texts;
    md_cg_group group;
    const char *mask; /* lanes that are wanted (a md_b variable), NULL: all; guarded reads keep to it */
    bool is_storing; /* the place that is being located is one to store to */
    bool inverts_sums; /* md_cg_invert_sums */
    bool wants_owner; /* the next checked subscript says which block stores */
    const char *store_condition;
    uint32_t pointers; /* tensors whose pointer is a local of this body */
    bool used[MD_FX_N_OPS];
    md_status status;
};

/* Where a load or store goes. */
typedef enum md_cg_motion { MD_CG_FIXED, MD_CG_CONSECUTIVE, MD_CG_STEPS, MD_CG_SCATTERED } md_cg_motion;

typedef struct md_cg_place {
    md_cg_motion motion;
    const char *pointer;
    const char *offset; /* of the element, or of lane 0 (int64_t); SCATTERED: md_i */
    const char *stride; /* STEPS */
    const char *mask; /* lanes whose subscripts are inside; NULL: all */
    const char *condition; /* scalar: whether uniform subscripts are inside; NULL: they are */
    /* CONSECUTIVE: the last subscript is more than the lane index, so that vectors of an aligned tensor need not be
     * aligned */
    bool is_shifted;
    bool is_twos; /* steps of two along the last axis: two vectors where its stride turns out to be 1 */
    bool is_line; /* steps of one along an axis: vectors where its stride turns out to be 1 */
} md_cg_place;

/* values.c */
md_cg_value_number *md_cg_number(md_cg *cg, const md_fx_node *node);
bool md_cg_varies(md_cg *cg, md_cg_value_number *v);
bool md_cg_is_guarded(md_cg *cg, md_cg_value_number *v);
const md_cg_name *md_cg_find(md_cg *cg, md_cg_value_number *v);
void md_cg_know(md_cg *cg, md_cg_value_number *v, md_cg_name name, bool at_root);
/** A uniform text in a variable, known from now on. */
const char *md_cg_share(md_cg *cg, const char *c_type, const char *text, bool is_hoisted);

/* expression.c */
md_cg_name md_cg_eval(md_cg *cg, const md_fx_node *node);
/** The same as a text of this type, in lanes where `lanes` asks for it. */
const char *md_cg_operand(md_cg *cg, const md_fx_node *node, md_dtype type, bool lanes);
/* literal.c */
/** A constant as an operand of this type: converted here, not in the text. */
const char *md_cg_constant(md_cg *cg, const md_fx_node *node, md_dtype type);
const char *md_cg_integer(md_cg *cg, int64_t value);
/** One value in all lanes. */
const char *md_cg_splat(md_cg *cg, const char *name, md_dtype type);
/* printer.c */
/** md_cg_suffix, and the C type, in this text: lanes may be bytes. */
const char *md_cg_suffix_in(const md_cg *cg, md_dtype type, bool is_uniform);
const char *md_cg_type_in(const md_cg *cg, md_dtype type, bool is_uniform);
/** True if the text is C++ for a GPU. */
bool md_cg_is_cuda(const md_cg *cg);
/** The text in the arena. NULL when memory is short, and the status says so. */
const char *md_cg_format(md_cg *cg, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Prints `const <type> <new name> = <text>;`. `is_hoisted`: to the prologue. */
md_cg_name md_cg_declare(md_cg *cg, const char *c_type, bool is_uniform, bool is_hoisted, const char *text);
bool md_cg_can_hoist(const md_cg *cg, bool is_uniform, bool is_guarded);
md_strbuf *md_cg_sink(md_cg *cg, bool is_hoisted);
void md_cg_error(md_cg *cg, md_status status);
/** Opens and closes a C block in `sink`. */
void md_cg_open(md_cg *cg, md_strbuf *sink, int32_t hidden);
void md_cg_close(md_cg *cg);

/* loops.c */
md_cg_name md_cg_reduce(md_cg *cg, md_cg_value_number *v);
md_cg_name md_cg_scan(md_cg *cg, md_cg_value_number *v);
/* run.c */
/** A run of integers compared with a value that lanes share, on a host: one comparison of narrow lanes. NULL: it is
 * something else. */
const char *md_cg_compare_run(md_cg *cg, const md_fx_node *n);
/* group.c */
/** Opens and closes the loop over the results of a group, in which nothing is grouped. */
void md_cg_group_open(md_cg *cg, md_strbuf *sink);
void md_cg_group_close(md_cg *cg, md_strbuf *sink);
/** Prints what all results share of the body of a reduction; in front of the loop over them. */
void md_cg_group_share(md_cg *cg, const md_fx_node *body);
/** A reduction that is done for all results of the group. */
md_cg_name md_cg_group_result(md_cg *cg, md_cg_value_number *v, const char *text);
/* access.c */
/** "" or "_any": of unit loads and stores on a GPU that no envelope promises to be aligned. */
const char *md_cg_unit_suffix(const md_cg *cg, const md_cg_place *at);
md_cg_name md_cg_load(md_cg *cg, md_cg_value_number *v);
/* place.c */
void md_cg_locate(md_cg_place *out, md_cg *cg, int32_t tensor, int32_t rank, const md_fx_node *const *subscript);
/** The offset that the first n axes make, which do not move with the lanes. */
const char *md_cg_uniform_place(md_cg *cg, int32_t tensor, int32_t n, const md_fx_node *const *subscript);
/* bounds.c */
const char *md_cg_extent(md_cg *cg, int32_t tensor, int32_t axis);
/** Checks a subscript that must be: gives back the subscript to use, and adds to the place's condition or mask. */
md_cg_name md_cg_check(md_cg_place *out, md_cg *cg, int32_t tensor, int32_t axis, const md_fx_node *subscript);
/** The value of a LENGTH, which the kernel reports if it is above the size. */
md_cg_name md_cg_length(md_cg *cg, md_cg_value_number *v);

#endif
