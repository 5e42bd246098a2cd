import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import "./style.css";
import { Problem } from "@rfq-custody/client";
import { applyTheme } from "./theme.ts";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // The client has already repeated what is worth repeating.
      retry: (failures, error) => !(error instanceof Problem) && failures < 1,
      // Otherwise a read without a network waits for ever, and says nothing.
      networkMode: "always",
    },
  },
});

applyTheme();
const root = document.getElementById("root");
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
