/* The key of an op's entry in the store: all that a pick depends on, but the shape and the environment. */
#include "dispatch/select/stored_state.h"
#include "expr/formula.h"

char *md_ds_stored_make_key(const md_ds_op *op, const char *chip)
{
    static const char *const bounds[] = {"report", "clamp", "zero"};
    md_strbuf b = {0};
    char digest[33];
    md_fx_print(&b, op->formula);
    for (size_t i = 0; i < b.size; i++)
        if (b.text[i] == '\n')
            b.text[i] = ' ';
    md_strbuf_printf(&b, " | bounds %s | numeric %s", bounds[op->formula->bounds],
                     md_ds_numeric_name(op->policy.numeric));
    if (op->policy.allows_tf32)
        md_strbuf_add(&b, " | tf32");
    if (op->customs) {
        md_digest_text(digest, op->customs->digest);
        md_strbuf_printf(&b, " | custom %s", digest);
    }
    md_strbuf_printf(&b, " | %s", chip);
    if (b.failed) {
        md_strbuf_finish(&b);
        return NULL;
    }
    return b.text;
}
