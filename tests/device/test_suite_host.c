/* The host device passes the suite. */
#include "device/suite.h"

int main(void)
{
    return suite_run(&(suite_options){.device = "host", .effort = 0.03});
}
