import packageJson from '../../package.json' with { type: 'json' };

/** The version of this program, as in package.json. */
export const productVersion: string = packageJson.version;
