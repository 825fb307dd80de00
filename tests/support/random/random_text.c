/* Random formulas by the name of their kind. */
#include "support/random/random_text.h"

#include "base/status.h"
#include "support/random/random_formula.h"
#include "support/random/random_op.h"
#include "support/random/random_program.h"

#include <string.h>

static const char *const op_kinds[RANDOM_OP_N_KINDS] = {"pointwise", "broadcast", "row",     "softmax", "scan",
                                                        "gather",    "scatter",   "product", "chain",   "contraction"};

bool random_text(md_strbuf *out, const char *kind, uint64_t seed)
{
    uint64_t state = seed * 1000003 + 17;
    for (int32_t i = 0; i < MD_COUNT(op_kinds); i++)
        if (!strcmp(op_kinds[i], kind)) {
            random_op(out, &state, (random_op_kind)i);
            return true;
        }
    if (!strcmp(kind, "wild"))
        random_formula(out, &state, &(random_formula_options){0});
    else if (!strcmp(kind, "program"))
        random_program(out, &state);
    else
        return false;
    return true;
}
