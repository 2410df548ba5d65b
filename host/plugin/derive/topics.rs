//! The topics that a file publishes, as far as they are written out.

use oxc::ast::ast::{Argument, CallExpression, Expression, Program};
use oxc::ast_visit::{Visit, walk};

/// The first arguments of `notify.publish('…', …)`.
pub(super) fn published(program: &Program<'_>) -> Vec<String> {
    let mut search = Search(Vec::new());
    search.visit_program(program);
    search.0
}

struct Search(Vec<String>);

impl<'a> Visit<'a> for Search {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        if let Expression::StaticMemberExpression(callee) = &call.callee
            && callee.property.name == "publish"
            && callee.object.is_specific_id("notify")
            && let Some(Argument::StringLiteral(topic)) = call.arguments.first()
        {
            self.0.push(topic.value.to_string());
        }
        walk::walk_call_expression(self, call);
    }
}
