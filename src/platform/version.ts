/** The version of the service, of its descriptions and of its clients (CHANGELOG.md). */
export const VERSION = "0.1.0";
