/** wrangler bundles files with this extension as data. */
declare module "*.bin" {
  const bytes: ArrayBuffer;
  export default bytes;
}
