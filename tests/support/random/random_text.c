/* Random formulas by the name of their kind. */
#include "support/random/random_text.h"

#include "base/status.h"
#include "support/check.h"
#include "support/random/random_formula.h"
#include "support/random/random_op.h"
#include "support/random/random_product.h"
#include "support/random/random_program.h"

#include <stdio.h>
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
    else if (!strcmp(kind, "window"))
        random_window(out, &state);
    else if (!strcmp(kind, "weights"))
        random_weights(out, &state);
    else
        return false;
    return true;
}

bool random_texts(const char *line, int n, void (*take)(void *user, const char *formula, bool is_split), void *user)
{
    char kind[32];
    unsigned long long seed;
    if (sscanf(line, "random %31s %llu", kind, &seed) != 2)
        return false;
    for (int i = 0; i < n; i++) {
        md_strbuf text = {0};
        assert_true(random_text(&text, kind, seed + (uint64_t)i));
        take(user, md_strbuf_text(&text), i % 2 != 0);
        md_strbuf_finish(&text);
    }
    return true;
}
