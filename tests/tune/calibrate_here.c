/* Calibrates this machine and prints it, for tools/judge_calibration.py:
 * calibrate_here [DEVICE [BUDGET_MS [THREADS]]] */
#include "base/status.h"
#include "base/log.h"
#include "device/open.h"
#include "tune/calibrate/calibrate.h"

#include <stdio.h>
#include <stdlib.h>

int main(int n, char **argument)
{
    const double budget_ms = n > 2 ? atof(argument[2]) : 2000;
    md_pool *pool = NULL;
    md_dev *dev = NULL;
    md_bd *builder = NULL;
    md_tn_calibration c = {0};
    md_strbuf text = {0};
    md_status s = md_pool_create(&pool, n > 3 ? atoi(argument[3]) : 2);
    if (s == MD_OK)
        s = md_dev_open(&dev, &(md_dev_options){.device = n > 1 ? argument[1] : "host", .pool = pool});
    if (s == MD_OK)
        s = md_bd_create(&builder, dev);
    if (s == MD_OK)
        s = md_tn_calibrate(&c, builder, &(md_tn_calibrate_options){.budget_ms = budget_ms});
    md_tn_calibration_print(&text, &c);
    printf("%s\n%s", s == MD_OK ? "ok" : md_last_error(), text.size ? md_strbuf_text(&text) : "");
    md_strbuf_finish(&text);
    md_bd_destroy(&builder);
    md_dev_close(&dev);
    md_pool_destroy(&pool);
    return s != MD_OK;
}
