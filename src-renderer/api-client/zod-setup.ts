import { z } from 'zod';

/**
 * zod compiles checks with `new Function` where it can; the page's policy forbids that, and the attempt alone
 * would be reported. Imported before anything that makes a schema.
 */
z.config({ jitless: true });
