/* regret: how much slower automatic choices are than the best variant of all pools, over many shapes.
 *
 * A line of a board is "OP DTYPE key=value ...": count (shapes), seed and bytes (the most that a shape's tensors
 * have) say how shapes are drawn, a dim's range "i=1..65536" that it is drawn log-uniformly, one number that it is
 * fixed. static=LIST goes to the op; hints=LIST adds a mode that goes by the model at these hints, hints=suggest at
 * sixteen that are suggested for the line's shapes; trace=FILE with dim=NAME takes sizes and weights from lines
 * "size weight" instead of drawing. */
#include "regret/regret.h"

#include <stdlib.h>
#include <string.h>

static void add_up(regret_mode *m, const regret_shape *shape, const regret_result *r)
{
    m->choosing_sum += m->choosing_us;
    m->n_failed += m->has_failed;
    if (m->has_failed)
        return;
    m->sum += m->regret;
    m->own_sum += m->own_regret;
    m->most = m->all.n == 0 || m->regret > m->most ? m->regret : m->most;
    timing_add(&m->all, m->regret);
    m->time += shape->weight * r->best_us * (1.0 + m->regret);
    m->best_time += shape->weight * r->best_us;
    if (!r->is_searched)
        return;
    m->space_sum += m->space_regret;
    m->space_time += shape->weight * r->space_us * (1.0 + m->space_regret);
    m->space_best += shape->weight * r->space_us;
}

static md_status study_shape(regret_study *t, const regret_line *l, const regret_shape *shape)
{
    regret_result r = {.best = "", .space_best = ""};
    t->shape = shape;
    md_status s = regret_place(t, shape->sizes);
    for (int i = 0; i < t->n_modes && s == MD_OK; i++)
        s = regret_ask(t, &t->mode[i]);
    if (s == MD_OK && t->n_searched < t->o->space)
        s = regret_search(&r, t, shape->sizes);
    if (s == MD_OK)
        s = regret_measure(&r, t);
    if (s != MD_OK)
        return s;
    t->n_searched += r.is_searched;
    t->n_complete += r.is_complete;
    for (int i = 0; i < t->n_modes; i++)
        add_up(&t->mode[i], shape, &r);
    regret_print_shape(t, l, shape, &r);
    return MD_OK;
}

static md_status study_line(regret_study *t, const regret_line *l)
{
    int done = 0;
    char what[96];
    regret_shape *shape = calloc(REGRET_SHAPES, sizeof *shape);
    md_status s = shape ? regret_make_modes(t, l) : MD_OUT_OF_MEMORY;
    int n = s != MD_OK ? 0 : l->trace ? regret_read_trace(shape, l) : regret_draw(shape, l, t->mode[0].op);
    if (s == MD_OK)
        s = regret_make_hinted(t, l, shape, n);
    if (s == MD_OK)
        s = regret_rivals(t, l);
    t->line = l;
    t->n_searched = t->n_complete = 0;
    for (int i = t->o->part - 1; i < n && s == MD_OK; i += t->o->n_parts, done++) {
        cli_progress_part(done, (double)(n - t->o->part + t->o->n_parts) / t->o->n_parts);
        cli_progress("%s %s: shape %d of %d", l->op, shape[i].sizes, i + 1, n);
        s = study_shape(t, l, &shape[i]);
        if (s != MD_OK)
            cli_fail("%s %s: %s", l->op, shape[i].sizes, md_last_error());
    }
    snprintf(what, sizeof what, "%s %s%s%s", l->op, md_dtype_name(l->dtype), l->trace ? " " : "",
             l->trace ? l->trace : "");
    for (int i = 0; i < t->n_modes; i++) {
        regret_print_sum(t, what, done, &t->mode[i]);
        regret_print_space_sum(t, what, &t->mode[i]);
    }
    for (int i = 0; i < t->n_modes; i++)
        md_op_destroy(&t->mode[i].op);
    t->n_modes = 0;
    regret_leave(t);
    free(shape);
    return s;
}

static int study_board(regret_study *t, const char *path)
{
    char line[1024];
    int status = CLI_OK;
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_usage("cannot open the board '%s'", path);
    for (int number = 1; status == CLI_OK && fgets(line, sizeof line, f); number++) {
        regret_line l;
        line[strcspn(line, "#\n")] = 0;
        if (!line[strspn(line, " \t")])
            continue;
        if (!regret_parse(&l, line))
            status = cli_usage("%s:%d: expected \"OP DTYPE key=value ...\"", path, number);
        else if (study_line(t, &l) != MD_OK)
            status = cli_fail_md();
    }
    fclose(f);
    return status;
}

int cli_regret(const cli_options *o)
{
    int status = CLI_OK;
    if (o->n == 0)
        return cli_usage("regret takes boards: mdctl regret data/boards/regret_host.txt");
    regret_study *t = calloc(1, sizeof *t);
    if (!t)
        return cli_fail("out of memory");
    t->o = o;
    if (o->output && !(t->output = fopen(o->output, "w")))
        status = cli_fail("cannot write '%s'", o->output);
    if (status == CLI_OK && (cli_open_context(&t->context, o) != MD_OK || regret_open(t) != MD_OK))
        status = cli_fail_md();
    for (int i = 0; i < o->n && status == CLI_OK; i++)
        status = study_board(t, o->arg[i]);
    regret_close(t);
    cli_close_context(&t->context);
    status = cli_close_output(t->output, o->output, status);
    free(t);
    return status;
}
