/* One launch for many items, or a launch each: by the model, by times of real runs, or as the store remembers. Both
 * ways give the same bits, so that runs of either kind can be timed. */
#ifndef MD_COMBO_DECIDE_DECIDE_H
#define MD_COMBO_DECIDE_DECIDE_H

#include "combo/combo.h"

/** Decides for a plan that is new. */
void md_cb_decide(md_cb *cb);
/** How the next run is done, and begins to time it where that is of use. */
md_cb_how md_cb_decide_begin(md_cb *cb, md_stream stream);
/** After the run was enqueued. */
void md_cb_decide_end(md_cb *cb, md_cb_how how, md_stream stream);
void md_cb_decide_finish(md_cb *cb);

/** Adds a time of a run. With enough of both ways it decides, and has that written to the store. */
void md_cb_decide_add(md_cb *cb, md_cb_how how, double us);
/** "by the model" and so on. */
const char *md_cb_decide_why(const md_cb_decision *decision);

/* ---- model.c */
/** Predicted times of a run of the plan, us. */
void md_cb_predict(double us[MD_CB_HOWS], const md_cb *cb);
/** The way that predicted times ask for: one launch if that is below 0.97 of launches of each item. */
md_cb_how md_cb_prefer(const double us[MD_CB_HOWS]);

#endif
