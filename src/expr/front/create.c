/* From text to formula: runs the passes of the front end in order. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/front/front.h"

static md_status run_passes(md_front *fr)
{
    fr->formula->arena = fr->arena;
    fr->formula->bounds = fr->options.bounds;
    fr->formula->text = md_arena_text(fr->arena, fr->text);
    if (!fr->formula->text)
        return md_fail_memory();
    if (fr->tree.n_items == 0)
        MD_TRY(md_syntax_parse(&fr->tree, fr->scratch, fr->text));
    if (fr->tree.list && !fr->takes_lists)
        return md_fx_complain(fr->text, fr->tree.list_line, fr->tree.list_column,
                              "'@%s' makes this a formula over lists: md_list_create takes those", fr->tree.list);
    MD_TRY(md_front_symbols(fr));
    MD_TRY(md_front_resolve(fr));
    MD_TRY(md_front_dims(fr));
    MD_TRY(md_front_simplify(fr));
    MD_TRY(md_front_widen(fr)); /* simplified before: folding may remove an operand that reads an element */
    MD_TRY(md_front_simplify(fr));
    MD_TRY(md_front_check_sizes(fr));
    MD_TRY(md_front_reaches(fr));
    return fr->options.bounds == MD_BOUNDS_REPORT ? md_front_lengths(fr) : MD_OK;
}

static md_status check_options(md_fx_options *options)
{
    if (options->dtype == MD_DTYPE_DEFAULT)
        options->dtype = MD_F32;
    if (md_dtype_size(options->dtype) == 0)
        return md_fail(MD_INVALID_ARGUMENT, "dtype %d (%s) cannot be computed with", (int)options->dtype,
                       md_dtype_name(options->dtype));
    if ((unsigned)options->bounds > MD_BOUNDS_ZERO)
        return md_fail(MD_INVALID_ARGUMENT, "bounds is %d; it is report, clamp or zero", (int)options->bounds);
    return MD_OK;
}

static md_status create(md_fx_formula **out, const char *text, const md_syntax_tree *tree, const md_fx_options *options)
{
    if (!out || !text)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "the formula" : "the result's address");
    md_arena *arena = md_arena_create(), *scratch = md_arena_create();
    md_front *const front = arena && scratch ? md_arena_alloc(scratch, sizeof *front) : NULL;
    md_fx_formula *const formula = front ? md_arena_alloc(arena, sizeof *formula) : NULL;
    md_status status = MD_OUT_OF_MEMORY;
    if (!formula) {
        md_fail_memory();
        goto cleanup;
    }
    *front = (md_front){.arena = arena, .scratch = scratch, .text = text, .formula = formula};
    if (tree) {
        front->tree = *tree;
        front->takes_lists = true;
    }
    if (options)
        front->options = *options;
    front->last_access = &front->accesses;
    status = check_options(&front->options);
    if (status == MD_OK)
        status = run_passes(front);
    if (status == MD_OK) {
        *out = formula;
        arena = NULL; /* the formula's now */
    }
cleanup:
    md_arena_destroy(&scratch);
    md_arena_destroy(&arena);
    return status;
}

md_status md_fx_formula_create(md_fx_formula **out, const char *text, const md_fx_options *options)
{
    return create(out, text, NULL, options);
}

md_status md_front_create(md_fx_formula **out, const md_syntax_tree *tree, const md_fx_options *options)
{
    return create(out, tree->text, tree, options);
}

void md_fx_formula_destroy(md_fx_formula **formula)
{
    if (!formula || !*formula)
        return;
    md_arena *arena = (*formula)->arena; /* the formula itself lies in it */
    *formula = NULL;
    md_arena_destroy(&arena);
}
