/* Syntax as text, with all parentheses. */
#include "expr/digits.h"
#include "expr/list/inside.h"

#include <inttypes.h>
#include <string.h>

static void print_all(md_strbuf *out, const md_fl_reader *r, int32_t n, md_syntax *const *at, const char *flat)
{
    for (int32_t i = 0; i < n; i++) {
        md_strbuf_add(out, i ? ", " : "");
        md_fl_print(out, r, at[i], flat);
    }
}

/* Tensors say their dtype everywhere, but for lets, whose dtype follows from their value. */
static void print_tensor(md_strbuf *out, const md_fl_reader *r, const md_syntax *at, const char *flat)
{
    const md_fx_formula *f = r->list->item;
    const int32_t symbol = md_fl_symbol_named(r, at->name);
    const int32_t stmt = symbol >= 0 ? r->symbol[symbol].stmt : -1;
    const bool is_item_let = stmt >= 0 && r->stmt[stmt].kind == MD_FL_ITEMS && r->stmt[stmt].is_let;
    md_strbuf_add(out, at->name);
    for (int32_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensor[i].name, at->name) == 0 && (!is_item_let || f->tensor[i].is_declared))
            md_strbuf_printf(out, ":%s", md_dtype_name(f->tensor[i].dtype));
    md_strbuf_add(out, "[");
    if (flat && at->over_list)
        md_strbuf_add(out, flat);
    else
        print_all(out, r, at->n_args, at->arg, flat);
    md_strbuf_add(out, "]");
}

static void print_real(md_strbuf *out, double value)
{
    const size_t from = out->size;
    md_fx_print_real(out, value, MD_F64);
    if (!out->failed && !strpbrk(out->text + from, ".e"))
        md_strbuf_add(out, ".0");
}

static void print_operator(md_strbuf *out, const md_fl_reader *r, const md_syntax *at, const char *flat)
{
    md_strbuf_add(out, "(");
    if (at->n_args == 1)
        md_strbuf_printf(out, "%s ", md_fx_op_text(at->op));
    md_fl_print(out, r, at->arg[0], flat);
    if (at->n_args == 2) {
        md_strbuf_printf(out, " %s ", md_fx_op_text(at->op));
        md_fl_print(out, r, at->arg[1], flat);
    }
    md_strbuf_add(out, ")");
}

void md_fl_print(md_strbuf *out, const md_fl_reader *r, const md_syntax *at, const char *flat)
{
    switch (at->kind) {
    case MD_SYNTAX_INTEGER:
        if (at->dtype == MD_U64)
            md_strbuf_printf(out, "%" PRIu64, (uint64_t)at->integer);
        else
            md_strbuf_printf(out, "%" PRId64, at->integer);
        return;
    case MD_SYNTAX_REAL:
        print_real(out, at->real);
        return;
    case MD_SYNTAX_NAME:
        md_strbuf_add(out, at->name);
        return;
    case MD_SYNTAX_TENSOR:
        print_tensor(out, r, at, flat);
        return;
    case MD_SYNTAX_SIZE:
        md_strbuf_printf(out, "size(%s", at->name);
        if (at->integer >= 0)
            md_strbuf_printf(out, ".%" PRId64, at->integer);
        md_strbuf_add(out, ")");
        return;
    case MD_SYNTAX_BINDER:
        md_strbuf_printf(out, "%s[", at->name);
        print_all(out, r, at->n_indices, at->index, NULL);
        md_strbuf_add(out, "]");
        break;
    case MD_SYNTAX_CALL:
        md_strbuf_add(out, at->name);
        break;
    case MD_SYNTAX_OP:
        print_operator(out, r, at, flat);
        return;
    }
    md_strbuf_add(out, "(");
    print_all(out, r, at->n_args, at->arg, flat);
    md_strbuf_add(out, ")");
}
