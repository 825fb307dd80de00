/* Nodes to codes: operands first, then the code of the node itself. */
#include "expr/eval/code.h"
#include "expr/node.h"

static const char once, shared; /* marks in m->seen */

static bool note_shared(md_eval_machine *m, const md_fx_node *node)
{
    if (node->n_args == 0)
        return true;
    if (md_memo_find(&m->seen, node, NULL, 0, NULL))
        return md_memo_put(&m->seen, node, NULL, 0, &shared);
    if (!md_memo_put(&m->seen, node, NULL, 0, &once))
        return false;
    for (int32_t i = 0; i < node->n_args; i++)
        if (!note_shared(m, node->arg[i]))
            return false;
    return true;
}

static const md_eval_code *compile_scalar(md_eval_machine *m, const md_fx_node *node)
{
    bool is_real = md_dtype_is_real(m->formula->scalar[node->id].type);
    return is_real ? md_eval_real_const(m, md_dtype_round(node->type, m->binding->real[node->id]))
                   : md_eval_int_const(m, m->binding->integer[node->id]);
}

/* The code of a node whose operands are compiled. */
static const md_eval_code *make_code(md_eval_machine *m, const md_fx_node *node, const md_eval_code *const *arg)
{
    switch (node->kind) {
    case MD_FX_CONST:
        return md_dtype_is_real(node->type) ? md_eval_real_const(m, node->num) : md_eval_int_const(m, node->integer);
    case MD_FX_INDEX:
        return md_eval_index(m, node->id);
    case MD_FX_SIZE:
        return md_eval_int_const(m, m->binding->size[node->id]);
    case MD_FX_SCALAR:
        return compile_scalar(m, node);
    case MD_FX_LOAD:
        return md_eval_load(m, node, arg);
    case MD_FX_OP:
        return node->op == MD_FX_STEP ? md_eval_step(m, node, arg) : md_eval_op(m, node, arg);
    case MD_FX_CAST:
        return md_eval_cast(m, node, arg[0]);
    case MD_FX_REDUCE:
        return md_eval_remember(m, md_eval_reduce(m, node, arg[0]));
    case MD_FX_SCAN:
        return md_eval_scan(m, node, arg[0]);
    case MD_FX_CHECK: /* all subscripts are checked here */
        return arg[0];
    case MD_FX_LENGTH:
        return md_eval_length(m, node, arg[0]);
    case MD_FX_REF:
    case MD_FX_COUNT:
        break;
    }
    (void)md_fail(MD_INTERNAL, "the evaluator got a node of a stage (kind %d)", (int)node->kind);
    m->status = MD_INTERNAL;
    return NULL;
}

/* Tensors that are computed on demand need the code of their statement. */
static const md_eval_code *compile_node(md_eval_machine *m, const md_fx_node *node)
{
    const md_eval_code *arg[MD_MAX_RANK] = {NULL}, *value = NULL;
    for (int32_t i = 0; i < node->n_args; i++) {
        arg[i] = md_eval_compile(m, node->arg[i]);
        if (!arg[i])
            return NULL;
    }
    if (node->kind == MD_FX_LOAD && m->is_lazy[node->id] &&
        (md_eval_check_lazy(m, node->id) != MD_OK ||
         md_eval_statement(&value, m, m->formula->tensor[node->id].stmt) != MD_OK))
        return NULL;
    return make_code(m, node, arg);
}

const md_eval_code *md_eval_compile(md_eval_machine *m, const md_fx_node *node)
{
    const void *known = NULL;
    if (md_memo_find(&m->compiled, node, NULL, 0, &known))
        return known;
    const md_eval_code *c = compile_node(m, node);
    const void *mark = NULL;
    if (node->kind == MD_FX_OP && node->op != MD_FX_STEP && md_memo_find(&m->seen, node, NULL, 0, &mark) &&
        mark == &shared)
        c = md_eval_remember(m, c);
    if (!c || !md_memo_put(&m->compiled, node, NULL, 0, c))
        return NULL;
    return c;
}

md_status md_eval_statement(const md_eval_code **out, md_eval_machine *m, int32_t stmt)
{
    if (!m->value[stmt]) {
        const md_fx_node *node = m->formula->stmt[stmt].value;
        if (note_shared(m, node))
            m->value[stmt] = md_eval_compile(m, node);
    }
    *out = m->value[stmt];
    if (!*out && m->status == MD_OK)
        m->status = md_fail_memory();
    return m->status;
}
