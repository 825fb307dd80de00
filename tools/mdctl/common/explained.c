/* Reads what md_explain says. */
#include "common/explained.h"

#include "common/cli.h"
#include "common/results.h"

#include <stdlib.h>

json_t *explained(md_op *op, const char *sizes)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return NULL;
    const md_status s = md_explain(op, sizes, 1, cli_write, file);
    json_t *out = fclose(file) == 0 && s == MD_OK ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return out;
}

roofline roofline_of(md_op *op, const char *sizes)
{
    size_t at;
    json_t *stage, *said = explained(op, sizes);
    roofline out = {0};
    double most = -1.0;
    json_array_foreach(json_object_get(said, "stages"), at, stage)
    {
        const json_t *roof = json_object_get(stage, "roof");
        const double us = result_number(roof, "us"), beyond = result_number(roof, "model_us") - us;
        if (!json_is_object(roof))
            continue;
        out.us += us;
        if (beyond > most) {
            most = beyond;
            snprintf(out.limit, sizeof out.limit, "%s", result_word(roof, "limit"));
            snprintf(out.reason, sizeof out.reason, "%s", result_word(roof, "reason"));
        }
    }
    json_decref(said);
    return out;
}
