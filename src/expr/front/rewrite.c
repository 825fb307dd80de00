/* New pieces of syntax, which stand where the text has something else. */
#include "expr/front/rewrite.h"

#include "base/status.h"

md_status md_rewrite_make(md_front *fr, const md_syntax **out, md_syntax s, int32_t n, const md_syntax *const *arg)
{
    md_syntax *const made = md_arena_alloc(fr->scratch, sizeof *made);
    md_syntax **const args = md_arena_alloc(fr->scratch, (size_t)MD_MAX(n, 1) * sizeof(md_syntax *));
    if (!made || !args)
        return md_fail_memory();
    *made = s;
    for (int32_t i = 0; i < n; i++)
        args[i] = (md_syntax *)(uintptr_t)arg[i];
    made->n_args = n;
    made->arg = args;
    *out = made;
    return MD_OK;
}

md_status md_rewrite_combine(md_front *fr, const md_syntax **out, md_fx_op op, const md_syntax *at, const md_syntax *x,
                             const md_syntax *y)
{
    const bool may_miss = op == MD_FX_ADD || op == MD_FX_MUL || op == MD_FX_MAX || op == MD_FX_MIN;
    if (may_miss && (!x || !y)) {
        *out = x ? x : y;
        return MD_OK;
    }
    const md_syntax s = {.kind = MD_SYNTAX_OP, .op = op, .line = at->line, .column = at->column};
    return md_rewrite_make(fr, out, s, y ? 2 : 1, (const md_syntax *const[]){x, y});
}

md_status md_rewrite_number(md_front *fr, const md_syntax **out, const md_syntax *at, int64_t value)
{
    const md_syntax s = {.kind = MD_SYNTAX_INTEGER, .integer = value, .line = at->line, .column = at->column};
    return md_rewrite_make(fr, out, s, 0, NULL);
}

md_status md_rewrite_choose(md_front *fr, const md_syntax **out, const md_syntax *at, const md_syntax *const arg[3])
{
    const md_syntax s = {.kind = MD_SYNTAX_CALL, .name = "where", .line = at->line, .column = at->column};
    return md_rewrite_make(fr, out, s, 3, arg);
}

md_status md_rewrite_keyword(md_front *fr, const md_syntax **out, const md_syntax *at, bool value)
{
    const md_syntax s = {
        .kind = MD_SYNTAX_NAME, .name = value ? "true" : "false", .line = at->line, .column = at->column};
    return md_rewrite_make(fr, out, s, 0, NULL);
}
