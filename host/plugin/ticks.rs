//! What a program gets so that the engine can stop it and say where: the engine looks at the clock at every 10,000th
//! turn of a loop or call, which is far too seldom where each turn multiplies huge BigInts; and where it stops a loop that
//! calls nothing, it names the last place before at which something was called.
//!
//! - `a * b`, where both may be BigInts, becomes `(__left-- || (__left = __tick()), a * b)`: the host's `__tick` looks
//!   at the clock and gives how many more such operations may go by. So it is with `/`, `%` and `**`, and with `...`
//!   of what may be long.
//! - Before each loop stands `NaN;` at the loop's place: the look-up of a global is a place that the engine remembers.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use oxc::allocator::{Allocator, ArenaVec, TakeIn};
use oxc::ast::ast::{
    AssignmentOperator, AssignmentTarget, BinaryOperator, Expression, LogicalOperator, Program, SimpleAssignmentTarget,
    SpreadElement, Statement, UpdateOperator,
};
use oxc::ast::builder::AstBuilder;
use oxc::ast_visit::{VisitMut, walk_mut};
use oxc::span::{GetSpan, SPAN, Span};

use super::compile::Names;

/// Puts the marks in; gives whether the program uses `__tick`.
pub(super) fn mark<'a>(allocator: &'a Allocator, program: &mut Program<'a>, names: &Names) -> bool {
    let (left, tick) = (allocator.alloc_str(&names.left), allocator.alloc_str(&names.tick));
    let mut marker = Marker { ast: AstBuilder::new(allocator), allocator, left, tick, ticks: false, labelled: false };
    marker.visit_program(program);
    marker.ticks
}

struct Marker<'a> {
    ast: AstBuilder<'a>,
    allocator: &'a Allocator,
    left: &'a str,
    tick: &'a str,
    ticks: bool,
    /// The next statement is what a label names.
    labelled: bool,
}

impl<'a> Marker<'a> {
    /// `__left-- || (__left = __tick())`
    fn tick(&self) -> Expression<'a> {
        let ast = &self.ast;
        let target = || SimpleAssignmentTarget::new_assignment_target_identifier(SPAN, self.left, ast);
        let spend = Expression::new_update_expression(SPAN, UpdateOperator::Decrement, false, target(), ast);
        let callee = Expression::new_identifier(SPAN, self.tick, ast);
        let more = Expression::new_call_expression(SPAN, callee, None, [], false, ast);
        let assign = AssignmentOperator::Assign;
        let refill = Expression::new_assignment_expression(SPAN, assign, AssignmentTarget::from(target()), more, ast);
        Expression::new_logical_expression(SPAN, spend, LogicalOperator::Or, refill, ast)
    }

    fn count(&mut self, it: &mut Expression<'a>) {
        self.ticks = true;
        let operation = it.take_in(&self.allocator);
        *it = Expression::new_sequence_expression(operation.span(), [self.tick(), operation], &self.ast);
    }

    /// `{ NaN; loop }`
    fn placed(&self, it: &mut Statement<'a>) {
        let start = it.span().start;
        // An empty span would count as none.
        let at = Span::new(start, start + 1);
        let name = Expression::new_identifier(at, "NaN", &self.ast);
        let mark = Statement::new_expression_statement(at, name, &self.ast);
        let mut both = ArenaVec::with_capacity_in(2, &self.allocator);
        both.extend([mark, it.take_in(&self.allocator)]);
        *it = Statement::new_block_statement(SPAN, both, &self.ast);
    }
}

fn is_loop(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::WhileStatement(_)
        | Statement::DoWhileStatement(_)
        | Statement::ForStatement(_)
        | Statement::ForInStatement(_)
        | Statement::ForOfStatement(_) => true,
        Statement::LabeledStatement(it) => is_loop(&it.body),
        _ => false,
    }
}

/// A number's literal as one of the operands rules BigInts out.
fn may_be_huge(operator: BinaryOperator, left: &Expression<'_>, right: &Expression<'_>) -> bool {
    matches!(
        operator,
        BinaryOperator::Multiplication
            | BinaryOperator::Division
            | BinaryOperator::Remainder
            | BinaryOperator::Exponential
    ) && !matches!(left, Expression::NumericLiteral(_))
        && !matches!(right, Expression::NumericLiteral(_))
}

impl<'a> VisitMut<'a> for Marker<'a> {
    fn visit_expression(&mut self, it: &mut Expression<'a>) {
        walk_mut::walk_expression(self, it);
        let heavy = match it {
            Expression::BinaryExpression(it) => may_be_huge(it.operator, &it.left, &it.right),
            Expression::AssignmentExpression(it) => {
                it.operator.to_binary_operator().is_some_and(|operator| may_be_huge(operator, &it.right, &it.right))
            }
            _ => false,
        };
        if heavy {
            self.count(it);
        }
    }

    // Not the call around it: in `a?.f(...x).y` a missing `a` ends all of it.
    fn visit_spread_element(&mut self, it: &mut SpreadElement<'a>) {
        walk_mut::walk_spread_element(self, it);
        self.count(&mut it.argument);
    }

    fn visit_statement(&mut self, it: &mut Statement<'a>) {
        let labelled = std::mem::replace(&mut self.labelled, matches!(it, Statement::LabeledStatement(_)));
        walk_mut::walk_statement(self, it);
        // Between a loop and its label nothing may stand: `continue` would not find it.
        if !labelled && is_loop(it) {
            self.placed(it);
        }
    }
}
