/* Whether lanes of few bits hold all values of an expression. */
#ifndef MD_CODEGEN_NARROW_H
#define MD_CODEGEN_NARROW_H

#include "codegen/codegen.h"
#include "expr/range/range.h"

/* A search ends after so many nodes: operands that are shared are met several times. */
enum { MD_CG_NARROW_NODES = 512 };

typedef struct md_cg_narrow_search {
    const md_st_program *program;
    int32_t n_nodes;
    md_range_interval limit; /* of what a lane holds */
    int32_t lane; /* bytes: the index along the lanes */
    bool is_bytes; /* lanes hold no reals, and read and write vectors */
    int32_t bits; /* bytes: of a lane, 4, 8 (i4 and u4 too) or 16 */
    md_dtype real; /* bytes: the type of the reals that lanes hold, and of no integers; MD_F32: none */
    bool has_integers; /* else nobody needs the answer */
    const md_st_product *product; /* whose operand B is searched; NULL: another expression */
    uint32_t valued; /* tensors whose elements are values, and not only subscripts */
} md_cg_narrow_search;

/** True if lanes within the limits hold the value and all that it is made of. *out: the range of an integer. */
bool md_cg_is_narrow(md_cg_narrow_search *s, const md_fx_node *n, md_range_interval *out);
bool md_cg_is_narrow_load(const md_cg_narrow_search *s, const md_fx_node *n, md_range_interval *out);
/** The range of an operation's result, an integer; false where it is not known. */
bool md_cg_range_of_op(md_range_interval *out, const md_fx_node *n, const md_range_interval arg[3]);
/** For lanes of bytes: elements of this dtype are lanes as memory holds them. */
bool md_cg_is_lane_item(const md_cg_narrow_search *s, md_dtype dtype);
/** For lanes of bytes: an access that moves with the lanes by single elements. */
bool md_cg_is_vector_access(const md_cg_narrow_search *s, int32_t tensor, int32_t rank,
                            const md_fx_node *const *subscript);
/** For lanes of bytes: the kernels' text has the operation for such lanes. */
bool md_cg_has_lane_form(const md_cg_narrow_search *s, md_fx_op op);
/** For lanes of bytes: the value is one of the lanes' real type, which lanes hold as memory does. */
bool md_cg_is_bits(md_cg_narrow_search *s, const md_fx_node *n);

#endif
