/* Recurrences: each element is a step y = a * y + b, and a total is such a step for many elements. f32 is carried in
 * f64. Rows and columns go from element to element, pieces of long rows by their totals. MD_RESTARTS: a factor of 0
 * forgets what was before, whatever it was. MD_RECURRENCE 2 and 3: y = max(a + y, b) and min(a + y, b), where nothing
 * (an infinity) stays nothing, whatever is added. */
#ifndef MD_HOST_RECUR_H
#define MD_HOST_RECUR_H

#if MD_RECURRENCE == 1
MD_INLINE MD_WIDE md_recur_times(MD_WIDE x, MD_WIDE y) { return x * y; }
MD_INLINE MD_WIDE md_recur_one(MD_WIDE a, MD_WIDE y, MD_WIDE b) { return MD_RESTARTS && a == 0 ? b : a * y + b; }
#else
MD_INLINE MD_WIDE md_recur_times(MD_WIDE x, MD_WIDE y)
{
    return x == MD_NOTHING || y == MD_NOTHING ? (MD_WIDE)MD_NOTHING : x + y;
}
MD_INLINE MD_WIDE md_recur_one(MD_WIDE a, MD_WIDE y, MD_WIDE b)
{
    return MD_RECURRENCE == 2 ? md_max_sd(md_recur_times(a, y), b) : md_min_sd(md_recur_times(a, y), b);
}
#endif

/* The steps of a vector along the axis after y = carry->b. */
MD_INLINE MD_RESULT md_recur_scan(md_step v, md_steps *carry)
{
    MD_RESULT out = v.b;
    MD_WIDE y = carry->b;
    for (int j = 0; j < MD_VL; j++) {
        const int k = MD_REVERSE ? MD_VL - 1 - j : j;
        const MD_WIDE then = md_recur_one((MD_WIDE)v.a[k], y, (MD_WIDE)v.b[k]);
        out[k] = (MD_ONE)(MD_EXCLUSIVE ? y : then);
        y = then;
    }
    carry->b = y;
    return out;
}

/* One step in every lane. */
MD_INLINE MD_RESULT md_recur_then(md_step v, MD_TOTALS *carry)
{
    const MD_TOTALS before = *carry, a = MD_WIDEN(v.a), b = MD_WIDEN(v.b);
    MD_TOTALS then = a * before + b;
    if (MD_RECURRENCE > 1)
        for (int k = 0; k < MD_VL; k++)
            then[k] = md_recur_one(a[k], before[k], b[k]);
    else if (MD_RESTARTS)
        for (int k = 0; k < MD_VL; k++)
            then[k] = a[k] == 0 ? b[k] : then[k];
    *carry = then;
    return MD_NARROW(MD_EXCLUSIVE ? before : then);
}

/* Takes a vector along the axis into a total. */
MD_INLINE void md_recur_add(md_step v, md_steps *total)
{
    for (int j = 0; j < MD_VL; j++) {
        const int k = MD_REVERSE ? MD_VL - 1 - j : j;
        total->b = md_recur_one((MD_WIDE)v.a[k], total->b, (MD_WIDE)v.b[k]);
        total->a = md_recur_times(total->a, (MD_WIDE)v.a[k]);
    }
}

#endif
