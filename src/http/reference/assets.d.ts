/** wrangler carries files of this ending as data. */
declare module "*.bin" {
  const bytes: ArrayBuffer;
  export default bytes;
}
