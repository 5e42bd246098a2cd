import { join } from "node:path";
import { defineConfig } from "vite";

const path = (relative: string) => join(import.meta.dirname, relative);

export default defineConfig({
  root: path("."),
  // The Worker serves the files under /console/ (wrangler.toml, [assets]).
  base: "/console/",
  // The source of the client, so that the console needs no build of it.
  resolve: { alias: { "@rfq-custody/client": path("../client/src/index.ts") } },
  build: {
    emptyOutDir: true,
    modulePreload: false,
    rolldownOptions: {
      // Directives for servers of React components mean nothing here.
      onwarn: (warning, warn) => {
        if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning);
      },
    },
  },
});
